# The public names, each imported when it is first used: __init__.py reads this file.
from .app import create_app as create_app
from .library import update_library as update_library
from .settings import Limits as Limits
from .settings import ServerSettings as ServerSettings
