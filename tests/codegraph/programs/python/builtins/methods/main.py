text = ",".join(["a"])
text.upper().split(",")
numbers = [3]
numbers.sort()
{}.get("a")
