from switchmark.library import Record as Record
from switchmark.library import Run as Run
from switchmark.library import Test as Test
from switchmark.library import load as load
from switchmark.library import plan as plan
from switchmark.library import run as run
from switchmark.library import tests as tests

__version__: str
