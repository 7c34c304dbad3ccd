// The part of the comparison that is about weights on their way in.
#pragma once

// Prints a line for each instruction set and form; how many of them differ from the portable code by a bit.
int compare_conversions();
