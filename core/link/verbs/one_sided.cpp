// The verbs link's one-sided engine, compiled here once.
#include "core/link/one_sided/engine_impl.hpp"
#include "core/link/verbs/pipe.hpp"

namespace comch::link {

template class OneSidedEngine<verbs::Pipe>;

} // namespace comch::link
