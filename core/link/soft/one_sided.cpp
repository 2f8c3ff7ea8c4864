// The soft link's one-sided engine, compiled here once.
#include "core/link/one_sided/engine_impl.hpp"
#include "core/link/soft/pipe.hpp"

namespace comch::link {

template class OneSidedEngine<soft::Pipe>;

} // namespace comch::link
