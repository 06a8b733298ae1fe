"""Fetches the parsers of SGLang's and vLLM's releases from PyPI: `fetch-engines.py FOLDER sglang==VERSION vllm==VERSION`.

Only their Python files are kept: a whole engine would bring PyTorch along.
"""
import io
import os
import re
import sys
import tarfile
import urllib.request
import zipfile

KEPT = re.compile(r'(?:^|/)((?:sglang/srt/(?:function_call|parser)|vllm/(?:tool_parsers|parser|reasoning))/.*\.py)$')


def page(url):
    with urllib.request.urlopen(url, timeout=300) as answer:
        return answer.read()


def release(name, version):
    links = re.findall(r'href="([^"#]+)', page(f'https://pypi.org/simple/{name}/').decode())
    ours = [link for link in links if re.search(rf'/{name}-{re.escape(version)}(?:-|\.tar\.gz$)', link)]
    source = [link for link in ours if link.endswith('.tar.gz')]
    return (source or ours)[0]


def files(link):
    data = io.BytesIO(page(link))
    if link.endswith('.whl'):
        with zipfile.ZipFile(data) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist() if KEPT.search(name))
        return
    with tarfile.open(fileobj=data) as archive:
        for member in archive:
            if member.isfile() and KEPT.search(member.name):
                yield member.name, archive.extractfile(member).read()


folder = sys.argv[1]
for wanted in sys.argv[2:]:
    name, version = wanted.split('==')
    for path, content in files(release(name, version)):
        at = os.path.join(folder, KEPT.search(path).group(1))
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(at, 'wb') as file:
            file.write(content)
