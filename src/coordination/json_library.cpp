#include <boost/json/src.hpp>

// Boost.JSON itself, compiled once: for this layer, for the tool, and for the tests that read what it prints.
