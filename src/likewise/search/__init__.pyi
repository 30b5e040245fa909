# The public names, each imported when it is first used: __init__.py reads this file.
from .exports import LearnedEncoder as LearnedEncoder
from .index import Index as Index
from .neighbors import Neighbors as Neighbors
