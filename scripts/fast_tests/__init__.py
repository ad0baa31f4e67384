"""The inner loop: the tests that a change concerns, nearest first, for as long as the time lasts.

pytest-testmon, which remembers the lines that each test ran, was tried instead. Its first run takes
75 % longer than all our tests without it, in every checkout, and it must be done again when a
package in the environment changes; a change in one function then still selects up to 800 tests, in
no order; it does not follow child processes, and pages, style sheets and schemas not at all. The
graph of imports needs no first run. It knows less about what a far test really runs, but the far
tests are the ones that fall to the deadline anyway.
"""
