# The public names, each imported when it is first used: __init__.py reads this file.
from .feedback import Feedback as Feedback
from .taught import Taught as Taught
from .taught_index import TaughtIndex as TaughtIndex
from .taught_index import save_index as save_index
from .teacher import Lesson as Lesson
from .teacher import Teacher as Teacher
from .teacher import load_index as load_index
