// Other processes for tests, forked before anything of UCX is open.
#pragma once

#include "core/base/test_process.hpp"

namespace comch::uct::test {

using comch::test::Line;
using comch::test::Process;

} // namespace comch::uct::test
