// The host's half: sends a long message on the fast path, and compares the sum that the DPU answers
// on the control path with its own.
#include <memory>
#include <optional>
#include <vector>

#include "common.hpp"

namespace {

struct Program {
    std::uint32_t target = 0; ///< the server's consumer; 0: not known yet
    std::optional<std::string> answer;
    bool sent = false;

    // ---- handlers, called from inside progress() ----------------------------------------------

    static Program& self(void* user) { return *static_cast<Program*>(user); }

    static void consumer_added(void* user, comch::Connection&, std::uint32_t consumer) {
        self(user).target = consumer;
    }
    static void message(void* user, comch::Connection&, std::span<const std::byte> bytes) {
        // Valid inside this call only, so it is copied.
        self(user).answer.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    static void was_sent(void* user, void*, comch::Errc status) {
        must(status, "the message did not arrive");
        self(user).sent = true; // and its memory is ours again
    }
};

} // namespace

int main() {
    const auto domain = value_of(comch::Domain::open());
    const comch::Device host = first_of(comch::devices(domain, comch::Side::host), "host function");
    const auto engine = value_of(comch::ProgressEngine::create());
    Program program;
    const auto client = value_of(comch::Client::open(*engine, host, server_name, {},
                                                     {.user = &program,
                                                      .message = Program::message,
                                                      .consumer_added = Program::consumer_added}));
    // Whatever else is waited for: the server may be missing, refuse, or die.
    const auto wait_for = [&](auto&& done) {
        progress_until(*engine, [&] {
            if (client->state() == comch::State::stopping ||
                client->state() == comch::State::idle) {
                give_up(client->error().message);
            }
            return done();
        });
    };
    wait_for([&] { return program.target != 0; });
    auto producer = value_of(comch::Producer::open(*engine, client->connection(), {},
                                                   {.user = &program, .sent = Program::was_sent}));

    std::vector<std::byte> data(most_bytes);
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<std::byte>(i * 7);
    }
    wait_for([&] {
        const comch::Errc result = producer->send(program.target, {.data = data}, nullptr);
        if (result != comch::Errc::again) { // else no buffer is free yet
            must(result, "the message cannot be sent");
        }
        return result == comch::Errc::ok;
    });
    wait_for([&] { return program.sent && program.answer.has_value(); });

    producer.reset(); // before what it is on
    if (const auto stopped = client->stop(); !stopped) {
        give_up(stopped.error().message);
    }
    progress_until(*engine, [&] { return client->state() == comch::State::idle; });
    std::printf("The DPU's sum of %zu bytes is %s\n", data.size(), program.answer->c_str());
    if (*program.answer != std::to_string(sum_of(data))) {
        give_up("which is wrong");
    }
}
