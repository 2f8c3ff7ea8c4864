// The DPU's half: takes messages on the fast path, into a buffer of its own, and answers each with
// the sum of its bytes on the control path. Serves one client, and ends with it.
#include <deque>
#include <memory>
#include <vector>

#include "common.hpp"

namespace {

struct Program {
    comch::ProgressEngine& engine;
    comch::Connection* client = nullptr; ///< while there is one
    std::unique_ptr<comch::Consumer> consumer{};
    std::vector<std::byte> buffer = std::vector<std::byte>(most_bytes);
    std::deque<std::string> answers{}; ///< not sent yet
    bool over = false;

    void post() {
        must(consumer->post({.address = buffer.data(), .capacity = buffer.size()}, nullptr),
             "the buffer cannot be posted");
    }
    void send_answers() {
        while (client != nullptr && !answers.empty()) {
            const comch::Errc sent = client->send(std::as_bytes(std::span(answers.front())));
            if (sent == comch::Errc::again) {
                return; // no room now; progress makes some
            }
            must(sent, "an answer cannot be sent");
            answers.pop_front();
        }
    }

    // ---- handlers, called from inside progress() ----------------------------------------------

    static Program& self(void* user) { return *static_cast<Program*>(user); }

    static void connected(void* user, comch::Connection& connection) {
        Program& program = self(user);
        if (program.client != nullptr) {
            return; // one is enough; a real server would keep a list
        }
        program.client = &connection;
        program.consumer = value_of(comch::Consumer::open(
            program.engine, connection, {},
            {.user = user, .received = received, .state_changed = consumer_changed}));
    }
    static void disconnected(void* user, comch::Connection& connection, comch::EndReason) {
        Program& program = self(user);
        program.over = program.over || program.client == &connection;
        program.client = program.client == &connection ? nullptr : program.client;
    }
    static void consumer_changed(void* user, comch::State state) {
        if (state == comch::State::running) { // the client may know of it from now on
            self(user).post();
        }
    }
    static void received(void* user, const comch::Received& message) {
        Program& program = self(user);
        if (message.status != comch::Errc::ok) {
            return; // the connection has ended, and the buffer comes back as it was
        }
        const std::span<const std::byte> bytes(program.buffer.data() + message.offset,
                                               message.length);
        program.answers.push_back(std::to_string(sum_of(bytes)));
        program.post();
    }
};

} // namespace

int main() {
    const auto domain = value_of(comch::Domain::open());
    const comch::Device dpu = first_of(comch::devices(domain, comch::Side::dpu), "DPU");
    // The host function whose clients may connect.
    const comch::Representor representor = first_of(value_of(dpu.representors()), "host function");
    const auto engine = value_of(comch::ProgressEngine::create());
    Program program{.engine = *engine};
    const auto server = value_of(comch::Server::open(*engine, dpu, representor, server_name, {},
                                                     {.user = &program,
                                                      .connected = Program::connected,
                                                      .disconnected = Program::disconnected}));
    std::printf("Waiting for a client of %s\n", representor.function().name.c_str());
    std::fflush(stdout);
    progress_until(*engine, [&] {
        program.send_answers();
        return program.over;
    });
    program.consumer.reset(); // before what it is on
    std::puts("The client has gone");
}
