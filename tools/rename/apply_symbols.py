"""usage: apply_symbols.py REPO [TABLE]: rename classes by module, following imports (tokens only)."""
import ast, io, pathlib, re, subprocess, sys, tokenize, collections
here = pathlib.Path(__file__).parent
repo = pathlib.Path(sys.argv[1]).resolve(); root = repo/"src/coatcheck"
table = pathlib.Path(sys.argv[2]) if len(sys.argv)>2 else here/"symbols.txt"
rules = collections.defaultdict(dict)   # module dotted -> {old:new}
for line in table.read_text().splitlines():
    line=line.split("#")[0].strip()
    if line:
        m,a,b=line.split(); rules["coatcheck."+m.replace("/",".")][a]=b
files=[repo/f for f in subprocess.check_output(["git","ls-files","-co","--exclude-standard","*.py"],cwd=repo,text=True).split("\n") if f]
def modname(f):
    try: r=f.relative_to(repo/"src")
    except ValueError: return None
    r=str(r)[:-3].replace("/",".")
    return r[:-9] if r.endswith(".__init__") else r
# definitions, to detect clashes and re-exports
defined=collections.defaultdict(list)
trees={}
for f in files:
    if not f.is_file(): continue
    try: trees[f]=ast.parse(f.read_text())
    except SyntaxError: continue
    if modname(f):
        for n in trees[f].body:
            if isinstance(n,(ast.ClassDef,ast.FunctionDef,ast.AsyncFunctionDef)): defined[n.name].append(modname(f))
for m,rs in rules.items():
    for a,b in rs.items():
        if m not in defined[a]: print("NOT DEFINED",m,a)
        if b in defined and m not in ("",): print("CLASH",b,defined[b],"for",m,a)
# re-exports: package __init__ (or any module) that does `from M import X`; treat them as aliases of M.X
exports={ (m,a):b for m,rs in rules.items() for a,b in rs.items()}
for _ in range(3):
    for f,t in trees.items():
        m=modname(f)
        if not m: continue
        for n in t.body:
            if isinstance(n,ast.ImportFrom) and n.module and n.level==0:
                for al in n.names:
                    if (n.module,al.name) in exports and al.asname in (None, al.name): exports.setdefault((m,al.name),exports[(n.module,al.name)])
changed=0
for f,t in trees.items():
    m=modname(f); local={}; modaliases={}
    if m:
        for (mm,a),b in exports.items():
            if mm==m and m in rules and a in rules[m]: local[a]=b
    imported_from={}
    for n in ast.walk(t):
        if isinstance(n,ast.ImportFrom) and n.module and n.level==0:
            for al in n.names:
                key=(n.module,al.name)
                if key in exports:
                    if al.asname and al.asname!=al.name: imported_from.setdefault("as",[]).append((n.lineno,n.end_lineno,al.name,exports[key]))
                    else: local[al.name]=exports[key]
                full=f"{n.module}.{al.name}"
                if any(mm==full for mm,_ in exports): modaliases[al.asname or al.name]=full
    in_all=set()
    for n in t.body:
        if isinstance(n,ast.Assign) and any(isinstance(x,ast.Name) and x.id=="__all__" for x in n.targets):
            in_all={(e.lineno,e.col_offset) for e in getattr(n.value,"elts",[])}
    if not local and not imported_from and not modaliases:
        continue
    src=f.read_text(); out=[]; toks=list(tokenize.generate_tokens(io.StringIO(src).readline))
    lines=src.splitlines(keepends=True); edits=[]
    for i,tok in enumerate(toks):
        if tok.type==tokenize.NAME:
            prev=toks[i-1].string if i else ""
            if prev==".":
                base=toks[i-2]
                if base.type==tokenize.NAME and base.string in modaliases and (toks[i-3].string!="."):
                    b=exports.get((modaliases[base.string],tok.string))
                    if b: edits.append((tok.start,tok.end,b))
                continue
            special=[b for (l0,l1,a,b) in imported_from.get("as",[]) if l0<=tok.start[0]<=l1 and tok.string==a]
            if special: edits.append((tok.start,tok.end,special[0])); continue
            if tok.string in local:
                nxt=toks[i+1].string if i+1<len(toks) else ""
                # keyword argument `name=` inside a call: only class-like names are renamed, leave lower-case ones
                if nxt=="=" and tok.string[0].islower() and toks[i-1].string in "(,": continue
                edits.append((tok.start,tok.end,local[tok.string]))
        elif tok.type in (tokenize.STRING,tokenize.COMMENT) or tok.type==getattr(tokenize,"FSTRING_MIDDLE",-1):
            s=tok.string; new=s
            if tok.start in in_all and s.strip("\"'") in local:
                edits.append((tok.start,tok.end,'"'+local[s.strip("\"'")]+'"')); continue
            for a,b in local.items():
                if a[0].isupper() and len(a)>5 and a not in COMMON if (COMMON:={"Answer","Record","Message","Target","Request","Ended","Found","Column","Written","Signed","Patience","Keeping","Standing","Places","Settling","Address","Pattern","Webhooks","Refused","Incoming","Guard","Outcome","Packed","Inside","Because","Suspended","Watch","Admitting"}) is not None else False:
                    new=re.sub(rf"(?<![\w.`/]){a}(?![\w])",b,new)
                new=re.sub(rf"`{a}`",f"`{b}`",new)
            if new!=s: edits.append((tok.start,tok.end,new))
    if not edits: continue
    # apply from the end
    offs=[0]
    for l in lines: offs.append(offs[-1]+len(l))
    pos=lambda p: offs[p[0]-1]+p[1]
    for s0,e0,b in sorted(set(edits),key=lambda e:pos(e[0]),reverse=True):
        src=src[:pos(s0)]+b+src[pos(e0):]
    f.write_text(src); changed+=1
print("files changed",changed)
# __init__ lazy export tables and strings such as "coatcheck.x.y:Old" or "Old" in __all__ are left to the type checker and tests
