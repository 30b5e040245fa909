"""The routes: search, items, teaching, the page and what an operator asks for."""

from likewise.web.routes.concepts import concepts
from likewise.web.routes.duplicates import duplicates
from likewise.web.routes.exports import exports
from likewise.web.routes.items import items
from likewise.web.routes.map import map_routes
from likewise.web.routes.operations import operations
from likewise.web.routes.pages import pages
from likewise.web.routes.search import search
from likewise.web.routes.teach import teach

__all__ = ["routes"]

# One flat list: FastAPI matches a request to an included router twice.
_ROUTERS = (search, items, map_routes, duplicates, exports, teach, concepts, pages, operations)
routes = [route for router in _ROUTERS for route in router.routes]
