"""make book: docs/ as a searchable site that needs no network: build/book/index.html.

Sphinx and MyST (Debian packages) do the work. The pages are docs/*.md as they are; added here are the order of chapters, which is that of
the tables in docs/README.md, a page for each source file that a chapter links to, and the map of the source: every file with
the first sentence of its head comment. A link that leads nowhere fails the build.
"""
import os
import re
import shutil
import subprocess
import sys

import vm
from vm import Trouble, note

SOURCE = os.path.join(vm.BUILD, "book-source")
OUTPUT = os.path.join(vm.BUILD, "book")
LANGUAGE = {".c": "c", ".h": "c", ".S": "gas", ".py": "python", ".sh": "bash", ".pml": "c", ".patch": "diff"}
CONF = '''
project = "Faultline"
author = "the Faultline authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = []
html_theme = "alabaster"
html_theme_options = {"description": "a kernel about the page fault", "page_width": "1180px", "sidebar_width": "260px", "fixed_sidebar": True}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_copyright = False
html_show_sourcelink = False
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
pygments_style = "default"
'''


def chapters():
    """Pages in the order of docs/README.md, then those that it does not mention."""
    with open(os.path.join(vm.TOP, "docs/README.md"), encoding="utf-8") as f:
        text = f.read()
    order = list(dict.fromkeys(re.findall(r"\]\(([\w/-]+\.md)\)", text)))
    every = []
    for base, dirs, files in os.walk(os.path.join(vm.TOP, "docs")):
        dirs.sort()
        every += [os.path.relpath(os.path.join(base, f), os.path.join(vm.TOP, "docs")) for f in sorted(files) if f.endswith(".md")]
    return [p for p in order if p in every] + [p for p in every if p not in order and p != "README.md"]


def first_sentence(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        head = f.read(3000)
    m = re.match(r'(?s)\s*(?:#!.*?\n)?(?:/\*(.*?)\*/|"""(.*?)"""|((?:#[^\n]*\n)+))', head)
    words = " ".join(re.sub(r"(?m)^\s*[*#]+", " ", next((g for g in m.groups() if g), "")).split()) if m else ""
    sentence = re.match(r"(.+?[.:])(?:\s|$)", words)
    return (sentence.group(1) if sentence else words)[:220].rstrip(":")


def source_files():
    import subprocess as sp
    done = sp.run(["git", "-C", vm.TOP, "ls-files"], capture_output=True, text=True)
    return [p for p in done.stdout.split("\n") if os.path.splitext(p)[1] in LANGUAGE and p.split("/")[0] in ("boot", "kernel", "mm", "fs", "user", "tests")]


def escape(text):
    return re.sub(r"([*_`\[\]<>|\\])", r"\\\1", text)


def page_for(path, depth_text="Source"):
    target = os.path.join(SOURCE, "source", path + ".md")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(os.path.join(vm.TOP, path), encoding="utf-8", errors="replace") as f:
        text = f.read()
    fence = "`" * max(3, 1 + max((len(m) for m in re.findall(r"`+", text)), default=0))
    with open(target, "w", encoding="utf-8") as f:
        f.write(f"---\norphan: true\n---\n\n# {path}\n\n{fence}{{code-block}} {LANGUAGE.get(os.path.splitext(path)[1], 'text')}\n:linenos:\n\n{text}\n{fence}\n")


def rewrite(page, text, linked):
    """Links to sources lead to their pages; links to directories and other files become plain text."""
    def link(m):
        words, target, anchor = m.group(1), m.group(2), m.group(3) or ""
        if "://" in target or target.startswith("#"):
            return m.group(0)
        path = os.path.normpath(os.path.join("docs", os.path.dirname(page), target))
        here = os.path.dirname(page)
        if path == "docs/README.md":
            return f"[{words}]({os.path.relpath('index.md', here or '.')})"
        if path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
            return m.group(0)
        if path.endswith(".md") and os.path.isfile(os.path.join(vm.TOP, path)):
            linked.add(path)
            return f"[{words}]({os.path.relpath('source/' + path, here or '.')})"
        if os.path.isfile(os.path.join(vm.TOP, path)):
            linked.add(path)
            return f"[{words}]({os.path.relpath('source/' + path + '.md', here or '.')})"
        return words + anchor
    # A code span or block is left as it is.
    parts = re.split(r"(?ms)(^```.*?^```|^~~~.*?^~~~|`[^`\n]+`(?!\]))", text)
    return "".join(p if p.startswith(("```", "~~~")) else re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)", link, p)
                   for p in parts)


def write_source():
    shutil.rmtree(SOURCE, ignore_errors=True)
    os.makedirs(SOURCE)
    pages, linked = chapters(), set()
    for page in ["README.md"] + pages:
        with open(os.path.join(vm.TOP, "docs", page), encoding="utf-8") as f:
            text = rewrite(page, f.read(), linked)
        target = os.path.join(SOURCE, "index.md" if page == "README.md" else page)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if page == "README.md":
            toc = "\n".join(p[:-3] for p in pages) + "\nsource-map"
            text += f"\n\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{toc}\n```\n"
        with open(target, "w", encoding="utf-8") as f:
            f.write(text)
    for base, _, files in os.walk(os.path.join(vm.TOP, "docs")):
        for name in files:
            if name.endswith((".png", ".svg")):
                target = os.path.join(SOURCE, os.path.relpath(os.path.join(base, name), os.path.join(vm.TOP, "docs")))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(os.path.join(base, name), target)
    files = source_files()
    in_map = [p for p in files if p.split("/")[0] in ("boot", "kernel", "mm", "fs") or p.startswith("user/")]
    with open(os.path.join(SOURCE, "source-map.md"), "w", encoding="utf-8") as f:
        f.write("# The source on one page\n\nEvery file of the kernel and of user space, with the first sentence of what it says about itself.\n")
        last = None
        for p in in_map:
            if os.path.dirname(p) != last:
                last = os.path.dirname(p)
                f.write(f"\n## {last}/\n\n")
            f.write(f"- [{os.path.basename(p)}](source/{p}.md): {escape(first_sentence(os.path.join(vm.TOP, p)))}\n")
            linked.add(p)
    for p in sorted(linked):
        if p.endswith(".md"):
            target = os.path.join(SOURCE, "source", p)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(os.path.join(vm.TOP, p), encoding="utf-8") as f:
                text = re.sub(r"(?<!!)\[([^\[\]]*)\]\((?!https?:)[^)]*\)", r"\1", f.read())
            with open(target, "w", encoding="utf-8") as f:
                f.write("---\norphan: true\n---\n\n" + text)
        else:
            page_for(p)
    with open(os.path.join(SOURCE, "conf.py"), "w", encoding="utf-8") as f:
        f.write(CONF)
    return pages


def main():
    pages = write_source()
    # Debian's own python3 has Debian's Sphinx, whatever else is on the PATH.
    done = subprocess.run(["/usr/bin/python3", "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-j", "auto", SOURCE, OUTPUT],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Trouble("the book has broken places:\n" + "\n".join(dict.fromkeys((done.stdout + done.stderr).split("\n")))[-6000:])
    print(f"{len(pages)} chapters and pages: {OUTPUT}/index.html")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as e:
        note(f"book: {e}")
        sys.exit(2)
