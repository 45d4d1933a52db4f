"""Addresses that must not be called, each with the reason.

`NAMES` resolves names, as an attacker's own name server would.
"""

from __future__ import annotations

# The answers of an attacker's name server.
NAMES: dict[str, list[str]] = {
    "loopback.example": ["127.0.0.1"],
    "loopback6.example": ["::1"],
    "private.example": ["10.1.2.3"],
    "metadata.example": ["169.254.169.254"],
    "metadata6.example": ["fd00:ec2::254"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::a9fe:a9fe"],
    "sixtofour.example": ["2002:7f00:1::"],
    "shared.example": ["100.100.100.200"],
    "mixed.example": ["93.184.216.34", "127.0.0.1"],
    "mixed6.example": ["2606:2800:220:1::1", "fe80::1"],
    "scoped.example": ["fe80::1%2"],
    "zero.example": ["0.0.0.0"],
    "cloud-agent.example": ["168.63.129.16"],
    "intranet": ["192.168.1.10"],
    "metadata.google.internal": ["169.254.169.254"],
    "public.example": ["93.184.216.34"],
    "public6.example": ["2606:2800:220:1::1"],
}

_IN_ADDRESSES = [
    # this machine
    *("http://127.0.0.1/", "http://127.0.0.2:8080/", "https://127.255.255.254/", "http://0.0.0.0/"),
    *("http://0.1.2.3/", "http://[::1]/", "http://[::]/", "http://[0:0:0:0:0:0:0:1]/"),
    *("http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/"),
    *("http://localhost:6379/", "https://localhost:443/x", "http://foo.bar.localhost:80/"),
    # its neighbours
    *("http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.1/"),
    *("http://192.168.0.1/", "http://192.168.255.255/", "http://100.64.0.1/"),
    *("http://100.127.255.254/", "http://100.100.100.200/latest/meta-data/"),
    *("http://[fc00::1]/", "http://[fd12:3456::1]/", "http://[fe80::1]/", "http://[fec0::1]/"),
    # credential services
    *("http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/v2/credentials"),
    *("http://[fd00:ec2::254]/", "http://168.63.129.16/", "http://192.0.0.192/"),
    # reserved, multicast, documentation and test networks
    *("http://192.0.2.1/", "http://198.51.100.7/", "http://203.0.113.9/", "http://198.18.0.1/"),
    *("http://198.19.255.255/", "http://192.88.99.1/", "http://224.0.0.1/", "http://239.1.1.1/"),
    *("http://240.0.0.1/", "http://255.255.255.255/", "http://[ff02::1]/", "http://[2001:db8::1]/"),
    *("http://[100::1]/", "http://[5f00::1]/", "http://[3fff::1]/", "http://[4000::1]/"),
    # IPv4 inside IPv6
    *("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:169.254.169.254]/"),
    *("http://[::ffff:10.0.0.1]/", "http://[0:0:0:0:0:ffff:c0a8:0101]/", "http://[::127.0.0.1]/"),
    *("http://[::7f00:1]/", "http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/"),
    *("http://[64:ff9b:1::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/"),
    *("http://[2002:c0a8:0101::1]/", "http://[2001:0:7f00:1::]/", "http://[::ffff:0:127.0.0.1]/"),
]
_IN_NUMBERS = [
    *("http://2130706433/", "http://2852039166/", "http://3232235521/", "http://0/", "http://1/"),
    *(
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://0177.0.0.01/",
        "http://127.000.000.001/",
    ),
    *("http://0x7f000001/", "http://0x7f.0x0.0x0.0x1/", "http://0x7f.1/", "http://0X7F.0.0.1/"),
    *("http://127.1/", "http://127.0.1/", "http://10.1/", "http://169.254.43518/"),
    *(
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://192.168.257/",
        "http://256.1.1.1/",
    ),
    *("http://1.2.3.4.5/", "http://127.0.0.1.1/", "http://0x/", "http://00000177.0.0.1/"),
    *("http://127.0.0.1./", "http://example.0x7f/", "http://93.184.216.034/", "http://4294967296/"),
]
_IN_SYNTAX = [
    # credentials in the URL
    *("http://user@public.example/", "http://user:pass@public.example/", "http://@public.example/"),
    *("http://public.example@127.0.0.1/", "http://127.0.0.1@public.example/"),
    *("http://public.example:80@127.0.0.1:80/", "http://public.example%40127.0.0.1/"),
    # other schemes
    *("file:///etc/passwd", "ftp://public.example/", "gopher://127.0.0.1:6379/_INFO", "data:,x"),
    *("javascript:alert(1)", "ws://public.example/", "unix:///var/run/docker.sock", "dict://x:1/"),
    *("http:public.example", "http:/public.example/", "//public.example/", "public.example", ""),
    # ambiguous URLs
    *("http://public.example\\@127.0.0.1/", "http://127.0.0.1\\.public.example/"),
    *("http://public.example#@127.0.0.1/", "http://public.example/#fragment", "http:///path"),
    *("http://public.example /", " http://public.example/", "http://public.example/\r\nHost: x"),
    *("http://public.example\t/", "http://public.example/\x00", "http://public.example/a b"),
    *("http://127.0.0.1%2f.public.example/", "http://%31%32%37.0.0.1/", "http://pub%6cic.example/"),
    *(
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://ｌｏｃａｌｈｏｓｔ/",
        "http://lоcalhost/",
    ),
    *("http://public.example:0/", "http://public.example:65536/", "http://public.example:80:80/"),
    *("http://public.example:/", "http://public.example:+80/", "http://public.example:8o/"),
    *("http://[::1/", "http://::1/", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[]/"),
    *("http://[127.0.0.1]/", "http://[v1.x]/", "http://[::g]/", "http://.public.example/"),
    *("http://public..example/", "http://-x.example/", "http://x-.example/", "http://./"),
    *("http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/"),
    "http://public.example/" + "a" * 2048,
]
_IN_NAMES = [
    f"http://{name}/" for name in NAMES if name not in ("public.example", "public6.example")
]

HOSTILE: list[str] = [*_IN_ADDRESSES, *_IN_NUMBERS, *_IN_SYNTAX, *_IN_NAMES]

HARMLESS = [
    *(
        "http://public.example/",
        "https://public.example:8443/hook?a=b&c=%20",
        "HTTP://PUBLIC.example/",
    ),
    *("http://93.184.216.34/", "http://public.example./", "http://[2606:2800:220:1::1]:8080/x"),
    *(
        "http://[::ffff:93.184.216.34]/",
        "http://[64:ff9b::5db8:d822]/",
        "http://public6.example/@x",
    ),
    *("http://172.32.0.1/", "http://100.128.0.1/", "http://11.0.0.1/", "http://a_b.c-d.example/"),
]


async def resolve(host: str, _port: int) -> list[str]:
    """Resolve a name from the table above."""
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]
