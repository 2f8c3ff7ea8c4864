// The progress engine: what a program calls to make things happen.
//
//     auto engine = comch::ProgressEngine::create();
//     ... open servers, clients, producers and consumers on **engine ...
//     for (;;) {
//         while ((*engine)->progress() != 0) {}
//         if ((*engine)->arm() == comch::Errc::ok) {      // nothing came in between
//             epoll_wait(... (*engine)->event_fd() ...);  // sleep until there is something
//         }
//     }
//
// An engine belongs to one thread; a program has as many as it wants. All handlers of what is
// opened on an engine are called from its progress(), and from nowhere else, so that no handler
// ever runs inside another call. Whatever is opened on an engine must be destroyed before it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <comch/error.hpp>

namespace comch {

/// Something that an engine progresses. The functions are called once per progress() and once per
/// arm(), not once per message: this is the batch that design rules let be dispatched indirectly.
struct ProgressSource {
    /// Does what can be done now; returns the number of events handled.
    unsigned (*progress)(ProgressSource&) = nullptr;
    /// ok: a watched descriptor becomes readable when there is something to do; again: there is.
    Errc (*arm)(ProgressSource&) = nullptr;
};

class ProgressEngine {
public:
    /// no_memory: no descriptor is left (it takes two).
    [[nodiscard]] static Result<std::unique_ptr<ProgressEngine>> create();
    ~ProgressEngine();
    ProgressEngine(const ProgressEngine&) = delete;
    ProgressEngine& operator=(const ProgressEngine&) = delete;

    /// Makes things happen; returns the number of events handled, 0 if there was nothing to do.
    /// Inside a handler it does nothing and returns 0.
    unsigned progress();

    /// Can be polled, or put into an epoll set, by anybody; stays the engine's. Becomes readable
    /// when there is something to progress, after arm() answered ok.
    [[nodiscard]] int event_fd() const noexcept { return epoll_fd_; }

    /// To be called right before each sleep: what is posted between the two may end without ending
    /// it. ok: sleep; again: progress first. A descriptor that was
    /// readable before is quiet again afterwards, unless there is something to do.
    [[nodiscard]] Errc arm();

    /// Ends a sleep. The one function that may be called from any thread (and a signal handler).
    void wake() noexcept;

    // ---- for those who implement sources; the engine's thread ----------------------------------

    void add(ProgressSource& source);
    /// Also from inside a handler, also of another source.
    void remove(ProgressSource& source) noexcept;
    /// A descriptor that ends a sleep when it is readable.
    [[nodiscard]] Result<void> watch(int fd);
    /// (A forked child's calls leave its parent's sleeps alone.)
    void unwatch(int fd) noexcept;
    /// This is a forked child of the engine's process. Objects that it inherited can be destroyed there,
    /// and nothing else; their peers are not told.
    [[nodiscard]] bool inherited() const noexcept;

private:
    ProgressEngine(int epoll_fd, int wake_fd) noexcept;
    unsigned progress_sources();

    int epoll_fd_;
    int wake_fd_;
    std::uint64_t owner_; ///< the process's id
    bool in_progress_ = false;
    bool has_holes_ = false; ///< sources removed while the list was being walked
    std::uint32_t idle_rounds_ = 0;
    std::vector<ProgressSource*> sources_;
};

} // namespace comch
