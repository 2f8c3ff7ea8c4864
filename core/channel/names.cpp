#include <comch/channel.hpp>

namespace comch {

std::string_view to_string(State state) noexcept {
    switch (state) {
    case State::idle:
        return "idle";
    case State::starting:
        return "starting";
    case State::running:
        return "running";
    case State::stopping:
        return "stopping";
    }
    return "unknown";
}

std::string_view to_string(EndReason reason) noexcept {
    switch (reason) {
    case EndReason::local:
        return "local";
    case EndReason::closed:
        return "closed";
    case EndReason::peer_died:
        return "peer_died";
    case EndReason::protocol_error:
        return "protocol_error";
    case EndReason::device_error:
        return "device_error";
    }
    return "unknown";
}

std::string_view to_string(Refusal refusal) noexcept {
    switch (refusal) {
    case Refusal::none:
        return "none";
    case Refusal::by_program:
        return "by_program";
    case Refusal::message_size:
        return "message_size";
    case Refusal::too_many_clients:
        return "too_many_clients";
    case Refusal::wrong_function:
        return "wrong_function";
    case Refusal::stopping:
        return "stopping";
    case Refusal::malformed:
        return "malformed";
    }
    return "unknown";
}

} // namespace comch
