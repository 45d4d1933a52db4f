"""reflow paragraphs of docstrings and comments that hold a line over 100 columns."""
import json,subprocess,sys,pathlib,re,textwrap
repo=pathlib.Path(sys.argv[1])
for _ in range(2):
    out=subprocess.run(["/work/main/.venv/bin/ruff","check","--select","E501","--output-format","json","."],cwd=repo,capture_output=True,text=True).stdout
    by={}
    for e in json.loads(out): by.setdefault(e["filename"],[]).append(e["location"]["row"])
    for f,rows in by.items():
        src=pathlib.Path(f).read_text(); lines=src.split("\n")
        import tokenize,io
        ok=set()
        for t in tokenize.generate_tokens(io.StringIO(src).readline):
            if t.type==tokenize.STRING and t.string.startswith('"""'): ok|=set(range(t.start[0],t.end[0]+1))
            if t.type==tokenize.COMMENT and t.line.lstrip().startswith("#"): ok.add(t.start[0])
        rows=[r for r in rows if r in ok]
        for row in sorted(set(rows),reverse=True):
            i=row-1; line=lines[i]
            ind=re.match(r"\s*",line)[0]
            comment=line.lstrip().startswith("#")
            pre=ind+("# " if comment else "")
            bullet=re.match(r"\s*([-*]|\d+\.) ",line)
            def same(j):
                l=lines[j]
                if not l.strip() or '"""' in l and j!=i: return False
                if comment!=l.lstrip().startswith("#"): return False
                if re.match(r"\s*([-*|]|\d+\.) ",l) and j>i: return False
                return True
            a=b=i
            while not re.match(r"\s*([-*]|\d+\.) ",lines[a]) and a>0 and same(a-1) and not lines[a].lstrip().startswith('"""') and not '"""' in lines[a-1]: a-=1
            while b+1<len(lines) and same(b+1) and '"""' not in lines[b]: b+=1
            if '"""' in lines[a]:
                # one-line docstring
                if lines[a].count('"""')==2:
                    text=lines[a].strip().strip('"')
                    w=textwrap.wrap(text,100-len(ind),initial_indent=ind+'"""',subsequent_indent=ind) if False else None
                    parts=textwrap.wrap(text,100-len(ind)-3)
                    if len(parts)>1:
                        lines[a:b+1]=[ind+'"""'+parts[0]]+[ind+p for p in textwrap.wrap(" ".join(parts[1:]),100-len(ind))]+[ind+'"""']
                    continue
                continue
            text=[l.strip() for l in lines[a:b+1]]
            if comment: text=[t.lstrip("# ").strip() for t in text]
            bul=re.match(r"(\s*(?:# )?(?:[-*]|\d+\.) )",lines[a])
            if bul: first=bul[1]; sub=" "*len(first) if not comment else pre+"  "; text[0]=text[0][len(first.strip())+1:] if text[0].startswith(first.strip()) else text[0]
            else:
                first=re.match(r"\s*",lines[a])[0]+("# " if comment else ""); sub=(re.match(r"\s*",lines[min(a+1,b)])[0]+("# " if comment else "")) if b>a else first
            lines[a:b+1]=textwrap.wrap(" ".join(text),100,initial_indent=first,subsequent_indent=sub,break_long_words=False,break_on_hyphens=False)
        pathlib.Path(f).write_text("\n".join(lines))
