#include "perftest/session.hpp"

#include <fmt/format.h>

namespace comch::perftest {

void Session::on_end(std::string why, bool orderly) {
    if (connection_ != nullptr) {
        orderly_ = orderly;
        connection_ = nullptr;
        end_ = std::move(why);
    }
}

void Session::keep(std::span<const std::byte> message) {
    // The protocol has at most two under way; a peer that sends more only fills our memory.
    constexpr std::size_t enough = 8;
    if (inbox_.size() < enough) {
        inbox_.emplace_back(message.begin(), message.end());
    }
}

std::optional<Error> Session::failure() const {
    if (interrupt::requested()) {
        return Error{Errc::canceled, "interrupted"};
    }
    // What has arrived before the end is worth reading: it may be the reason.
    if (connection_ == nullptr && inbox_.empty()) {
        return Error{Errc::not_connected, end_};
    }
    return std::nullopt;
}

Result<void> Session::send(const protocol::Message& message) {
    const std::vector<std::byte> bytes = protocol::encode(message);
    Errc result = Errc::again;
    const auto sent = wait([&] {
        result = connection_ != nullptr ? connection_->send(bytes) : Errc::not_connected;
        return result != Errc::again;
    });
    if (!sent) {
        return tl::unexpected(sent.error());
    }
    if (result == Errc::ok) {
        return {};
    }
    // The handler that says why may not have been called yet.
    (void)wait([&] { return connection_ == nullptr; });
    if (!end_.empty()) {
        return fail(result, end_);
    }
    return fail(result, fmt::format("cannot send to {}: {}", peer_, to_string(result)));
}

Result<protocol::Message> Session::take() {
    const std::vector<std::byte> bytes = std::move(inbox_.front());
    inbox_.pop_front();
    auto message = protocol::decode(bytes);
    if (message) {
        if (const auto* failed = std::get_if<protocol::Failure>(&*message)) {
            return fail(Errc::rejected, fmt::format("{} says: {}", peer_, failed->text));
        }
    }
    return message;
}

tl::unexpected<Error> Session::stalled() const {
    return fail(
        Errc::io,
        fmt::format("nothing has moved for {} s and {} is still connected: is it stopped, or "
                    "are there far too few CPUs? {}",
                    timeout_.value_or(0), peer_, advice_));
}

tl::unexpected<Error> Session::unexpected_message() const {
    return fail(Errc::invalid_argument,
                fmt::format("{} sent what was not its turn to say; run the same build of "
                            "comch_perftest on both sides",
                            peer_));
}

} // namespace comch::perftest
