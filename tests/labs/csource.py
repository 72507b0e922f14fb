"""C at the level of functions: where a definition begins and ends, what its parameters are called, who mentions whom.

A full parser is not needed: kernel code is preprocessed by nobody here, so braces, parentheses, strings, comments and
preprocessor lines are enough to find every definition at file level. Bodies are never looked into, except for names.
"""
import re

# One token each; order matters. A preprocessor line takes its continuation lines with it.
TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n|\\$)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>[{}()\[\];,=*])
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "typeof", "__attribute__", "_Static_assert", "defined", "__printf"}


class SourceError(Exception):
    pass


class Function:
    """text[start:end] is the definition, with its storage class and attributes; text[body:end] is { ... }."""

    def __init__(self, name, start, body, end, parameters, head):
        self.name, self.start, self.body, self.end, self.parameters, self.head = name, start, body, end, parameters, head

    @property
    def is_static(self):
        return re.search(r"\bstatic\b", self.head) is not None


def tokens(text):
    for m in TOKEN.finditer(text):
        yield m.lastgroup, m.group(), m.start(), m.end()


def parameter_names(words):
    """The names in a parameter list, given as (kind, text) between its parentheses."""
    names, depth, current = [], 0, []
    for kind, word in words + [("mark", ",")]:
        if word in "([" and kind == "mark":
            depth += 1
        elif word in ")]" and kind == "mark":
            depth -= 1
        if word == "," and depth == 0:
            if current and current[-1] not in ("void",) and len(current) > 1:
                names.append(current[-1])
            current = []
        elif kind == "name" and depth == 0:
            current.append(word)
        elif kind == "name" and depth == 1 and current and current[-1] == "(*":
            current = ["pointer", word]		# int (*fn)(...)
    return names


def functions(text):
    """Every function that is defined at file level, by name."""
    found = {}
    depth = parens = 0
    start = None			# where the declaration in progress begins
    name = name_at = None		# the name before the last ( at file level
    last_name = None
    inside = []			# tokens of the parameter list
    closed = False		# ( ... ) has been seen, only attributes may follow
    opened = None
    for kind, word, begin, end in tokens(text):
        if kind in ("comment", "string"):
            continue
        if kind == "directive":
            if depth == 0 and parens == 0:
                start, name, closed = None, None, False
            continue
        if depth == 0 and start is None and kind == "name":
            start = begin
        if word == "{" and kind == "mark":
            if depth == 0 and parens == 0:
                opened = begin
            depth += 1
            continue
        if word == "}" and kind == "mark":
            depth -= 1
            if depth < 0:
                raise SourceError(f"a }} too many at offset {begin}")
            if depth == 0:
                if closed and name and opened is not None:
                    f = Function(name, start, opened, end, parameter_names(inside), text[start:opened])
                    if name == "SYSCALL_DEFINE":
                        words = [w for k, w in inside if k == "name"]
                        f.name = "sys_" + words[0]
                        f.parameters = f.parameters if len(words) > 1 and words[1] != "void" else []
                        if f.parameters and f.parameters[0] == words[0]:
                            f.parameters = f.parameters[1:]
                    found[f.name] = f
                    start, name, closed = None, None, False
                opened = None
            continue
        if depth:
            continue
        if kind == "mark" and word == "(":
            if parens == 0:
                if last_name and not closed and last_name not in KEYWORDS:
                    name, inside = last_name, []
            elif not closed:
                inside.append((kind, word))
            parens += 1
        elif kind == "mark" and word == ")":
            parens -= 1
            if parens == 0:
                if name and last_name is not None:
                    closed = True
            elif not closed:
                inside.append((kind, word))
        elif parens:
            if not closed:
                inside.append((kind, word))
        elif kind == "mark" and word in ";":
            start, name, closed = None, None, False
        elif kind == "mark" and word in "=,":
            name, closed = None, False
        if kind == "name" and parens == 0:
            last_name = word
    if depth or parens:
        raise SourceError("braces or parentheses do not match")
    return found


def comment_above(text, position):
    """Where the comment block that directly precedes `position` begins, or `position`."""
    before = text[:position].rstrip(" \t")
    m = re.search(r"(?:^|\n)([ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n)$", before, re.DOTALL)
    return m.start(1) if m else position


def prototypes(text, name):
    """Spans of the prototypes of `name` at file level."""
    spans = []
    for m in re.finditer(rf"(?m)^[a-z_][^\n;{{}}=]*\b{re.escape(name)}\([^;{{}}]*\)[^;{{}}\n]*;[^\n]*\n", text):
        spans.append(m.span())
    return spans


def names_in(text):
    """How often each identifier occurs, comments and strings aside."""
    count = {}
    for kind, word, _, _ in tokens(text):
        if kind == "name":
            count[word] = count.get(word, 0) + 1
        elif kind == "directive":
            for w in re.findall(r"[A-Za-z_]\w*", word):
                count[w] = count.get(w, 0) + 1
    return count


def rename(text, names):
    """Replaces whole identifiers, everywhere: code, comments, documents."""
    if not names:
        return text
    pattern = re.compile(r"\b(" + "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True)) + r")\b")
    return pattern.sub(lambda m: names[m.group(1)], text)
