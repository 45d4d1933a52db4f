import pathlib,re,sys
repo=pathlib.Path(sys.argv[1])
def sub(path,*pairs):
    f=repo/path; s=f.read_text()
    for a,b in pairs:
        if a not in s: print("MISSING",path,repr(a[:60])); continue
        s=s.replace(a,b)
    f.write_text(s)
f=repo/"src/coatcheck/cli/main.py"; s=f.read_text()
new={"serving":"commands.serve","demo":"demo.command","watching":"commands.watch","reseal":"commands.rekey"}
def one(m):
    mod=m[2]
    if mod=="doctor.command": return m[0]
    return f'{m[1]}("{new.get(mod,"commands."+mod)}",'
s=re.sub(r'(    "[a-z-]+": )\("([a-z_.]+)",',one,s); f.write_text(s)
sub("pyproject.toml",
 ('"mcp | surfaces | ui | wrapping",','"mcp | surfaces | ui | middleware",'),
 ('"store | blobs | egress | sandbox",','"store | blobs | egress | sandbox | archives | codegraph",'),
 ('  "sealing",\n  "pepper",\n  "tracing",','  "crypto",\n  "tracing",'),
 ('  "settings",\n  "secrets",\n','  "settings",\n'),
)
# words and files that the sandbox starts by path
for f in list((repo/"src/coatcheck/sandbox").glob("*.py"))+list((repo/"src/coatcheck/surfaces/render/drawing").rglob("*.py"))+list((repo/"tests/sandbox").rglob("*.py")):
    s=f.read_text(); n=s.replace("keeper.py","supervisor.py")
    n=re.sub(r"\bKEEPER\b","SUPERVISOR",n); n=re.sub(r"\bkeeper's\b","supervisor's",n); n=re.sub(r"\bkeeper\b","supervisor",n)
    if n!=s: f.write_text(n)
sub("src/coatcheck/cli/demo/surfaces.py",("Path(__file__).parent.glob","Path(__file__).parents[1].glob"),("parents[3]","parents[4]"))
