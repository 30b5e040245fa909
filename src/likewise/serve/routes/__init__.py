"""The routes: search, items, teaching, the page and what an operator asks for."""

from likewise.serve.routes.concepts import concepts
from likewise.serve.routes.duplicates import duplicates
from likewise.serve.routes.exports import exports
from likewise.serve.routes.items import items
from likewise.serve.routes.map import map_routes
from likewise.serve.routes.operations import operations
from likewise.serve.routes.pages import pages
from likewise.serve.routes.search import search
from likewise.serve.routes.teach import teach

__all__ = ["routes"]

# One flat list: FastAPI matches a request to an included router twice.
_ROUTERS = (search, items, map_routes, duplicates, exports, teach, concepts, pages, operations)
routes = [route for router in _ROUTERS for route in router.routes]
