// A connection, as the program knows it: its peer address.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include <comch/connection.hpp>
#include <doca_comm_channel.h>

#include "doca_comch/comm_channel/handle.hpp"

namespace comch::doca {

class Endpoint;

struct Peer {
    enum class State : std::uint8_t {
        connecting,  ///< client: not accepted yet
        established, ///<
        departed,    ///< the other end left in an orderly way, with nothing of ours under way
        failed,      ///< latched until the program disconnects
    };

    explicit Peer(Endpoint& of) : owner(of) {}

    Endpoint& owner;
    doca_comm_channel_addr_t* handle = nullptr;
    Connection* connection = nullptr; ///< null once it has ended
    State state = State::connecting;
    std::uint32_t max_message = 0; ///< that both ends take
    std::uint64_t user_data = 0;
    bool acceptance_untold = false; ///< a client's: nobody who sleeps to receive knows of it
    ConnectionStatistics snapshot;

    // The client behind it, for a service.
    std::uint64_t process = 0;
    std::uint64_t endpoint = 0;
    std::uint64_t attempt = 0;

    /// Handed to the program. The core counts what arrived, which may still wait here.
    std::uint64_t received_messages = 0;
    std::uint64_t received_bytes = 0;
    /// How many confirmations the program has been told of by its send channel, and by update.
    std::uint64_t told_confirmed = 0;
    std::uint64_t updated_confirmed = 0;
    struct Look {
        State state;
        std::uint64_t confirmed;
        bool operator==(const Look&) const = default;
    };
    /// How things were before the last send's last attempt, if it was refused.
    std::optional<Look> refused;
    /// How the last update found them, if they or a message were under way; until arming the send channel has
    /// told of what came since.
    std::optional<Look> updated;

    [[nodiscard]] ConnectionStatistics statistics() const {
        ConnectionStatistics result = connection != nullptr ? connection->statistics() : last_;
        result.received_messages = received_messages;
        result.received_bytes = received_bytes;
        return result;
    }
    [[nodiscard]] Look look() const { return {state, confirmed()}; }
    /// For the send channel. What came since a send was refused stays news until the program tries
    /// again, and what came since an update until it looks again or arms the channel: another call
    /// may have rung for it, and the arming that followed taken that away.
    [[nodiscard]] bool has_news_for_send() const {
        const Look now = look();
        return now.confirmed != told_confirmed || now != refused.value_or(now) ||
               now != updated.value_or(now);
    }
    [[nodiscard]] std::uint64_t confirmed() const {
        const ConnectionStatistics now = statistics();
        return now.sent_messages - now.in_flight_messages;
    }

    /// The connection is over. An orderly end is an error only for what was under way.
    void end(bool orderly) {
        last_ = connection != nullptr ? connection->statistics() : last_;
        connection = nullptr;
        if (state != State::failed) {
            state = orderly && last_.in_flight_messages == 0 && state == State::established
                        ? State::departed
                        : State::failed;
        }
    }

private:
    ConnectionStatistics last_;
};

} // namespace comch::doca

struct doca_comm_channel_addr_t : comch::doca::Handle<comch::doca::Peer, 0x2d72656570636322> {
    /// Whose lock keeps the object alive; null while there is none.
    std::atomic<comch::doca::Endpoint*> owner{nullptr};
};
