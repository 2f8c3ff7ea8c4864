// A process with memory that the tests' one-sided operations are aimed at.
#pragma once

#include <memory>

#include "test_process.hpp"
#include "test_uct.hpp"

namespace comch::uct::test {

/// Lives on the DPU's side, progresses all the time, and does what it is told.
class Target {
public:
    Target(Kind kind, std::size_t length, unsigned access = UCT_MD_MEM_ACCESS_ALL)
        : process_([=](Line& line) { serve(line, kind, length, access); }),
          hello_(process_.line().get<Hello>()), length_(length) {}

    [[nodiscard]] const Address& address() const { return hello_.address; }
    [[nodiscard]] const PackedKey& key() const { return hello_.key; }
    /// The same memory's; it is good for nothing once deregister() has returned.
    [[nodiscard]] const PackedKey& revocable_key() const { return hello_.revocable_key; }
    /// Of the memory, in the target's address space.
    [[nodiscard]] std::uint64_t memory(std::uint64_t offset = 0) const {
        return hello_.memory + offset;
    }
    [[nodiscard]] std::size_t length() const { return length_; }
    [[nodiscard]] Process& process() { return process_; }

    /// Fills a range with pattern(length, seed).
    void fill(std::uint64_t offset, std::uint64_t length, std::uint64_t seed) {
        (void)ask({Command::Do::fill, offset, length, seed});
    }
    void set_word(std::uint64_t offset, std::uint64_t value) {
        (void)ask({Command::Do::set_word, offset, 8, value});
    }
    [[nodiscard]] std::uint64_t word(std::uint64_t offset) {
        return ask({Command::Do::word, offset, 8, 0});
    }
    /// How many bytes of a range differ from pattern(length, seed).
    [[nodiscard]] std::uint64_t wrong_bytes(std::uint64_t offset, std::uint64_t length,
                                            std::uint64_t seed) {
        return ask({Command::Do::check, offset, length, seed});
    }
    /// Ends the registration of its memory.
    void deregister() { (void)ask({Command::Do::deregister, 0, 0, 0}); }
    /// Stops progressing until resume() (other commands are still carried out).
    void pause() { (void)ask({Command::Do::pause, 0, 0, 0}); }
    void resume() { (void)ask({Command::Do::resume, 0, 0, 0}); }
    /// How many active messages have come in order (each 8 bytes: its number, from 0).
    [[nodiscard]] std::uint64_t messages() { return ask({Command::Do::messages, 0, 0, 0}); }
    /// Closes its interface in an orderly way, and goes on living.
    void close_interface() { (void)ask({Command::Do::close, 0, 0, 0}); }
    /// Ends in an orderly way.
    int leave() {
        (void)ask({Command::Do::leave, 0, 0, 0});
        return process_.wait();
    }
    void kill() { process_.kill(); }

private:
    struct Hello {
        Address address;
        PackedKey key;
        PackedKey revocable_key;
        std::uint64_t memory;
    };
    struct Command {
        enum class Do : std::uint64_t {
            fill,
            set_word,
            word,
            check,
            deregister,
            pause,
            resume,
            messages,
            close,
            leave
        } what;
        std::uint64_t offset;
        std::uint64_t length;
        std::uint64_t value;
    };

    std::uint64_t ask(const Command& command) {
        process_.line().put(command);
        return process_.line().get<std::uint64_t>();
    }

    static void serve(Line& line, Kind kind, std::size_t length, unsigned access) {
        auto interface = std::make_unique<Interface>("dpu");
        Memory memory(interface->md, kind, length, access);
        std::memset(memory.data(), 0, length);
        std::uint64_t messages = 0;
        interface->on_message = [&](std::uint8_t, const std::byte* data, std::size_t size) {
            std::uint64_t number = 0;
            ASSERT_GE(size, sizeof(number));
            std::memcpy(&number, data, sizeof(number));
            ASSERT_EQ(number, messages) << "out of order";
            ++messages;
        };
        line.put(Hello{address_of(*interface), pack_key(*interface, memory),
                       pack_key(*interface, memory, UCT_MD_MKEY_PACK_FLAG_INVALIDATE),
                       memory.address()});
        bool paused = false;
        for (unsigned calls = 0;; ++calls) {
            const unsigned events =
                paused || interface->iface == nullptr ? 0 : interface->progress();
            if (events == 0) {
                std::this_thread::yield();
            }
            if ((!paused && calls % 64 != 0) || !line.has_something(paused ? 10 : 0)) {
                continue;
            }
            const auto command = line.get<Command>();
            std::byte* const at = memory.data() + command.offset;
            std::uint64_t answer = 0;
            switch (command.what) {
            case Command::Do::fill: {
                const auto bytes = pattern(command.length, command.value);
                std::copy(bytes.begin(), bytes.end(), at);
                break;
            }
            case Command::Do::set_word:
                std::memcpy(at, &command.value, sizeof(command.value));
                break;
            case Command::Do::word:
                std::memcpy(&answer, at, sizeof(answer));
                break;
            case Command::Do::check: {
                const auto bytes = pattern(command.length, command.value);
                for (std::size_t i = 0; i < bytes.size(); ++i) {
                    answer += at[i] != bytes[i] ? 1 : 0;
                }
                break;
            }
            case Command::Do::deregister:
                memory.release();
                break;
            case Command::Do::pause:
                paused = true;
                break;
            case Command::Do::resume:
                paused = false;
                break;
            case Command::Do::messages:
                answer = messages;
                break;
            case Command::Do::close:
                interface->close_iface();
                break;
            case Command::Do::leave:
                memory.release();
                interface.reset();
                line.put(answer);
                return;
            }
            line.put(answer);
        }
    }

    Process process_;
    Hello hello_;
    std::size_t length_;
};

} // namespace comch::uct::test
