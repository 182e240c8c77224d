"""No module of the package imports, at its top or later, one that imports it."""
import ast
import graphlib
import pathlib

import postlude


def test_no_module_is_made_of_itself():
    folder = pathlib.Path(postlude.__file__).parent
    modules = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    imports = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text("utf-8"))
        typing_only = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
                       for inner in ast.walk(node)}
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and id(node) not in typing_only:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        imports[name] = found & set(modules)
    assert sum(map(len, imports.values())) > 20
    list(graphlib.TopologicalSorter(imports).static_order())  # raises CycleError
