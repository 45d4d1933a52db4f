"""usage: apply_modules.py REPO"""
import ast, pathlib, re, subprocess, sys
here = pathlib.Path(__file__).parent
repo = pathlib.Path(sys.argv[1]).resolve()
root = repo / "src/coatcheck"
exact, folders = {}, []
for line in (here/"modules.txt").read_text().splitlines():
    line = line.split("#")[0].strip()
    if not line: continue
    a, b = line.split()
    if a.endswith("/"): folders.append((a, b))
    else: exact[a] = b
def target(p):
    for _ in range(4):
        q = exact.get(p)
        if q is None:
            for a, b in folders:
                if p.startswith(a): q = b + p[len(a):]; break
        if q is None or q == p: return p
        p = q
    return p
files = subprocess.check_output(["git","ls-files","src/coatcheck"],cwd=repo,text=True).split()
moves, mod = [], {}
for f in files:
    rel = f[len("src/coatcheck/"):]
    stem, ext = (rel[:-3], ".py") if rel.endswith(".py") else (rel, "")
    new = target(stem)
    if new != stem:
        moves.append((rel, new+ext))
        if ext:
            old_d, new_d = stem.replace("/","."), new.replace("/",".")
            if old_d.endswith(".__init__"): old_d, new_d = old_d[:-9], new_d[:-9]
            mod["coatcheck."+old_d] = "coatcheck."+new_d
unused=[a for a in exact if a not in {m[0][:-3] for m in moves} and not any(target(x[0][:-3])==exact[a] for x in moves)]
print("unused rules:", unused)
# 1. move. Two phases, as a module may become a package of the same name.
for a, b in moves:
    dest = root/b
    dest.parent.mkdir(parents=True, exist_ok=True)
    subprocess.check_call(["git","mv",str(root/a),str(dest)],cwd=repo)
for line in (here/"packages.txt").read_text().splitlines():
    pkg, doc = line.split("|")
    init = root/pkg/"__init__.py"
    if (root/pkg).is_dir() and not init.exists(): init.write_text(f'"""{doc}"""\n')
for d in sorted(root.rglob("*"), reverse=True):
    if d.is_dir() and d.name != "__pycache__" and not any(c.name!="__pycache__" for c in d.iterdir()):
        subprocess.call(["rm","-rf",str(d)])
# 2. dotted names, one pass, longest first
names = sorted(mod, key=len, reverse=True)
dotted = re.compile(r"(?<![\w.\0])(" + "|".join(map(re.escape,names)) + r")(?![\w])")
# 3. paths in prose: `http/auth/middleware.py`
paths = {}
for a, b in moves:
    if a.endswith(".py"):
        paths[a] = b
pathre = re.compile(r"(?<![\w/.])((?:src/)?(?:coatcheck/)?)(" + "|".join(map(re.escape,sorted(paths,key=len,reverse=True))) + r")(?![\w])")
text_files = [repo/f for f in subprocess.check_output(["git","ls-files"],cwd=repo,text=True).split("\n") if re.search(r"\.(py|md|toml|sql|in|js|css|html|yaml|cfg)$|Makefile$|^\.ci/", f)]
def rewrite_from_imports(s):
    """from coatcheck.http import door  ->  from coatcheck.http.auth import middleware, with uses renamed"""
    try: tree = ast.parse(s)
    except SyntaxError: return s
    lines = s.split("\n"); edits=[]; renames=[]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level==0 and node.module.split(".")[0]=="coatcheck":
            hit=[a for a in node.names if f"{node.module}.{a.name}" in mod]
            if not hit: continue
            keep=[a for a in node.names if a not in hit]
            indent=" "*node.col_offset
            out=[]
            if keep: out.append(indent+f"from {node.module} import "+", ".join(a.name+(f" as {a.asname}" if a.asname else "") for a in keep))
            for a in hit:
                new=mod[f"{node.module}.{a.name}"]; parent,leaf=new.rsplit(".",1)
                if a.asname: out.append(indent+f"from \0{parent} import {leaf} as {a.asname}" )
                else:
                    out.append(indent+f"from \0{parent} import {leaf}")
                    if leaf!=a.name: renames.append((a.name,leaf))
            edits.append((node.lineno-1,node.end_lineno,out))
    for start,end,out in sorted(edits,reverse=True): lines[start:end]=out
    s="\n".join(lines)
    for old,new in renames:
        s=re.sub(rf"(?<![\w.\"'/])(?<!import ){old}(?=\.[A-Za-z_]|[,)\]])", new, s)
    return s
bare={}
old_bases=[a.rsplit("/",1)[-1] for a,_ in moves if a.endswith(".py")]+[p.name for p in root.rglob("*.py")]
for a,b in moves:
    ob,nb=a.rsplit("/",1)[-1],b.rsplit("/",1)[-1]
    if a.endswith(".py") and ob!=nb and old_bases.count(ob)==1: bare[ob]=b
barere=re.compile(r"(?<![\w/.*\"-])("+"|".join(map(re.escape,bare))+r")(?![\w])") if bare else None
changed=0
for f in text_files:
    if not f.is_file(): continue
    s0=s=f.read_text()
    if f.suffix==".py": s=rewrite_from_imports(s)
    s=dotted.sub(lambda m: mod[m[1]], s)
    s=pathre.sub(lambda m: m[1]+paths[m[2]], s)
    s=s.replace('\0','')
    if barere and "src/coatcheck" in str(f) and f.suffix==".py": s=barere.sub(lambda m: bare[m[1]], s)
    if s!=s0: f.write_text(s); changed+=1
print("moved",len(moves),"rewrote",changed)
