"""The inner loop: the tests that a change concerns, nearest first, for as long as the time lasts.

pytest-testmon 2.2, which remembers the lines that each test ran, was tried instead. Its first run
takes 75 % longer than all our tests without it, in every checkout, and again when a package in the
environment changes; a change in one function then still selects up to 800 tests, the shortest
first; it follows neither child processes nor pages, style sheets and schemas. The graph of imports
needs no first run. It knows less about what a far test really runs, but far tests are the ones that
fall to the deadline anyway.
"""
