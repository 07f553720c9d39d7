#include <boost/json/src.hpp>

// Boost.JSON itself, compiled once for the tool and for the tests that read what it prints.
