#include "core/link/verbs/channel.hpp"

#include <cerrno>
#include <mutex>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "core/base/clock.hpp"
#include "core/device/per_process.hpp"
#include "core/link/bell.hpp"
#include "core/link/verbs/conn_param.hpp"

namespace comch::link::verbs {

namespace {

class Keeper {
public:
    static Keeper& instance() {
        static constinit PerProcess<Keeper> keeper;
        return keeper.get();
    }
    void take_connecting(std::weak_ptr<ChannelCore> core) {
        const std::lock_guard lock(mutex_);
        connecting_.push_back(std::move(core));
        count();
    }
    void take_remains(std::shared_ptr<ChannelCore> core) {
        const std::lock_guard lock(mutex_);
        remains_.push_back(std::move(core));
        count();
    }
    void add_tender() { tenders_.fetch_add(1, std::memory_order_relaxed); }
    /// With the last one what is left is dropped: nobody would look after it.
    void remove_tender() {
        if (tenders_.fetch_sub(1, std::memory_order_relaxed) != 1) {
            return;
        }
        std::vector<std::shared_ptr<ChannelCore>> dropped; // destroyed without the lock
        {
            const std::lock_guard lock(mutex_);
            dropped.swap(remains_);
            count();
        }
    }
    [[nodiscard]] bool has_tender() const { return tenders_.load(std::memory_order_relaxed) != 0; }
    /// True if no remains are left.
    bool tend() {
        if (count_.load(std::memory_order_relaxed) == 0) {
            return true;
        }
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) {
            return false;
        }
        std::erase_if(connecting_, [](const auto& weak) {
            const auto core = weak.lock();
            return core == nullptr || move_on(*core);
        });
        std::erase_if(remains_, [](const auto& core) { return core->over(); });
        count();
        return remains_.empty();
    }

private:
    /// True: it is for its owner alone from now on.
    static bool move_on(ChannelCore& core) {
        const auto own = core.lock_until_ready();
        // (Relaxed: it has just been seen, or only who has the lock sets it.)
        if (core.ready.load(std::memory_order_relaxed)) {
            return true;
        }
        core.connect_on();
        if (!core.ready.load(std::memory_order_relaxed)) {
            return false;
        }
        // Its owner may sleep beside the descriptor that said so, and has been read here.
        ring(core.bell.get());
        return true;
    }
    void count() { count_.store(connecting_.size() + remains_.size(), std::memory_order_relaxed); }

    std::mutex mutex_;
    std::vector<std::weak_ptr<ChannelCore>> connecting_;
    std::vector<std::shared_ptr<ChannelCore>> remains_;
    std::atomic<std::size_t> count_{0};
    std::atomic<int> tenders_{0}; ///< ports of this process
};

} // namespace

void tend_channels() {
    (void)Keeper::instance().tend();
}

TendsChannels::TendsChannels() : owner_(process_id()) {
    Keeper::instance().add_tender();
}

TendsChannels::~TendsChannels() {
    if (owner_ == process_id()) {
        Keeper::instance().remove_tender();
    }
}

void finish_channels(std::uint64_t deadline_ns) {
    while (!Keeper::instance().tend() && monotonic_ns() < deadline_ns) {
        ::usleep(50);
    }
}

// ---- ChannelCore --------------------------------------------------------------------------------

ChannelCore::~ChannelCore() {
    let_go();
}

void ChannelCore::let_go() noexcept {
    if (bell) {
        life->remove_bell(bell.get());
        if (device) {
            device->remove_bell(bell.get());
        }
    }
    if (pipe) {
        if (id && pipe->started()) {
            (void)::rdma_disconnect(id.get());
        }
        if (pipe->slot() != nullptr) {
            counters->release_slot(pipe->slot(), failed ? counters::SlotState::failed
                                                        : counters::SlotState::closed);
        }
        pipe->detach();
    }
    id.reset();
    pipe.reset();
    queues.reset();
}

void ChannelCore::abandon() noexcept {
    fail();
    if (device) {
        device->set_gone();
        device->remove_bell(bell.get());
        pipe->abandon();
        id.reset();
        queues->abandon();
        device.reset();
    }
}

Result<void> ChannelCore::prepare(const SlotInfo& parent) {
    auto made = Queues::create(device, 1);
    if (!made) {
        return tl::unexpected(std::move(made.error()));
    }
    queues = std::move(*made);
    auto end = Pipe::create(*queues);
    if (!end) {
        return tl::unexpected(std::move(end.error()));
    }
    pipe = std::move(*end);
    pipe->expect_writes();
    auto channel = CmChannel::create();
    if (!channel) {
        return tl::unexpected(std::move(channel.error()));
    }
    cm = std::move(*channel);
    SlotInfo info = parent;
    info.kind = counters::SlotKind::channel;
    info.state = counters::SlotState::connected;
    info.connection = pipe->number();
    pipe->set_slot(counters->take_slot(info));
    epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
    bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    for (const int fd : {queues->event_fd(), cm.fd(), bell.get()}) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        if (fd < 0 || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
            return fail_errno(Errc::no_memory, "cannot create the descriptors of a channel", errno);
        }
    }
    life->add_bell(bell.get());
    device->add_bell(bell.get());
    return {};
}

void ChannelCore::look_at_cm() {
    CmEvent event;
    while (id && next_event(cm, event)) {
        on_event(event);
    }
}

void ChannelCore::connect_on() {
    if (ready.load(std::memory_order_relaxed)) {
        return;
    }
    look_at_cm();
    if (!failed && !peer_gone) {
        (void)queues->fetch();
    }
    if (pipe->started() || failed || peer_gone) {
        ready.store(true, std::memory_order_release);
    }
}

Result<void> ChannelCore::try_to_connect() {
    id.reset();
    bool resolved = false;
    auto made =
        CmId::create_to(cm, nullptr, way.local, way.peer, tuning::resolve_at_once_ms, resolved);
    if (!made) {
        return tl::unexpected(std::move(made.error()));
    }
    id = std::move(*made);
    if (resolved) {
        start_handshake();
    }
    return {};
}

void ChannelCore::start_handshake() {
    rdma_conn_param param = conn_param(device->limits(), &way.request, sizeof(way.request));
    if (!pipe->make_queue_pair(id.get()) || ::rdma_connect(id.get(), &param) != 0) {
        fail();
    }
}

void ChannelCore::on_event(const CmEvent& event) {
    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (::rdma_resolve_route(id.get(), tuning::resolve_timeout_ms) != 0) {
            fail();
        }
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        start_handshake();
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (is_opener) {
            wire::Accept accept{};
            if (wire::read_private(event.private_data, event.private_length, accept) !=
                    wire::Check::ok ||
                !pipe->start(accept.credit)) {
                fail();
            }
        }
        break;
    case RDMA_CM_EVENT_REJECTED: {
        if (is_opener && takes_for_stale(event) && ++stale_attempts < tuning::stale_attempts) {
            pipe->unmake();
            if (!try_to_connect()) {
                fail();
            }
            break;
        }
        wire::Refusal refusal{};
        const bool told = wire::read_private(event.private_data, event.private_length, refusal) ==
                          wire::Check::ok;
        // Where nobody listens any more, the kernel refuses: the connection is over there, and how
        // it ended nobody can say.
        refused = told ? refusal.why == static_cast<std::uint8_t>(wire::Why::closing)
                       : finds_nobody(event);
        no_room = told && refusal.why == static_cast<std::uint8_t>(wire::Why::no_resources);
        peer_gone = true;
        break;
    }
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        abandon();
        break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
        peer_gone = peer_gone || !pipe->started(); // as in Port: later the queue pair will tell
        break;
    default: // disconnected, errors
        peer_gone = true;
        break;
    }
}

bool ChannelCore::handle_rare() noexcept {
    if (header.kind == static_cast<std::uint8_t>(wire::Control::attach) && !is_opener) {
        const auto attach = wire::read<wire::Attach>({data, length});
        return attach && pipe->start(attach->credit);
    }
    return pipe->handle_control(header, data, length);
}

void ChannelCore::fail() noexcept {
    failed = true;
    if (pipe) {
        pipe->break_off(Errc::connection_reset);
    }
}

bool ChannelCore::over() {
    look_at_cm();
    if (failed || peer_gone || device->gone()) {
        return true;
    }
    (void)queues->fetch();
    while (queues->front() != nullptr) {
        if (!pipe->started() && !failed) {
            (void)peek();
        }
        if (queues->front() != nullptr) {
            queues->pop();
        }
    }
    return failed || pipe->goodbye_arrived() || monotonic_ns() > deadline_ns;
}

// ---- Channel -----------------------------------------------------------------------------------

Result<Channel> Channel::open(std::shared_ptr<ConnectionLife> life,
                              std::shared_ptr<ProcessCounters> counters, const SlotInfo& parent,
                              std::uint64_t tag) {
    const auto way = life->way();
    if (life->state() != Errc::ok) {
        return comch::fail(life->state(), "cannot open a channel: the connection has ended");
    }
    if (!way) {
        return comch::fail(Errc::again, "cannot open a channel: the connection is not established "
                                        "yet; try again after progress");
    }
    auto core = std::make_shared<ChannelCore>();
    core->device = way->device;
    core->life = std::move(life);
    core->counters = std::move(counters);
    core->is_opener = true;
    core->way = *way;
    core->way.device.reset(); // one reference is enough to let go of
    core->way.request.tag = tag;
    if (auto prepared = core->prepare(parent); !prepared) {
        return tl::unexpected(std::move(prepared.error()));
    }
    const wire::Attach attach{.credit = core->pipe->credential(), .number = 0};
    (void)core->pipe->put_plain(wire::Control::attach, std::as_bytes(std::span(&attach, 1)));
    if (auto tried = core->try_to_connect(); !tried) {
        return tl::unexpected(std::move(tried.error()));
    }
    Keeper::instance().take_connecting(core);
    return Channel(std::move(core));
}

Result<void> ChannelCore::make_for_acceptance(const SlotInfo& parent) {
    if (auto prepared = prepare(parent); !prepared) {
        return prepared;
    }
    if (::rdma_migrate_id(id.get(), cm.get()) != 0) {
        return fail_errno(Errc::io, "cannot give a channel its own rdma_cm channel", errno);
    }
    return pipe->make_queue_pair(id.get());
}

Result<Channel> Channel::accept(std::shared_ptr<RdmaDevice> device,
                                std::shared_ptr<ConnectionLife> life,
                                std::shared_ptr<ProcessCounters> counters, const SlotInfo& parent,
                                CmId id, const CmEvent& request) {
    auto core = std::make_shared<ChannelCore>();
    core->device = std::move(device);
    core->life = std::move(life);
    core->counters = std::move(counters);
    core->id = std::move(id);
    if (auto made = core->make_for_acceptance(parent); !made) {
        refuse(core->id.get(), wire::Why::no_resources); // the opener says so
        return tl::unexpected(std::move(made.error()));
    }
    const wire::Accept accept{.magic = wire::magic,
                              .version = wire::version,
                              .size = sizeof(wire::Accept),
                              .reserved = 0,
                              .credit = core->pipe->credential()};
    rdma_conn_param param = accept_param(core->device->limits(), request, &accept, sizeof(accept));
    if (::rdma_accept(core->id.get(), &param) != 0) {
        return fail_errno(Errc::io, "cannot accept a channel", errno);
    }
    core->ready.store(true, std::memory_order_release); // nobody else has to do with it
    return Channel(std::move(core));
}

Channel::~Channel() {
    if (core_ == nullptr) {
        return;
    }
    if (core_->life->inherited()) {
        (void)new std::shared_ptr<ChannelCore>(
            std::move(core_)); // a forked child: it is its parent's
        return;
    }
    {
        const auto lock = core_->lock_until_ready();
        core_->look_at_cm();
        if (core_->failed || core_->peer_gone || core_->device->gone()) {
            return;
        }
        core_->pipe->say_goodbye();
        core_->deadline_ns =
            monotonic_ns() + (!Keeper::instance().has_tender() ? tuning::close_timeout_ns / 20
                              : core_->pipe->started()         ? tuning::close_timeout_ns
                                                               : tuning::unmade_close_timeout_ns);
    }
    const std::uint64_t deadline = core_->deadline_ns;
    Keeper::instance().take_remains(std::move(core_));
    if (Keeper::instance().has_tender()) {
        tend_channels();
    } else {
        finish_channels(deadline + tuning::close_timeout_ns / 20); // nobody else will
    }
}

Channel& Channel::operator=(Channel&& other) noexcept {
    Channel old(std::move(*this)); // ends the channel that was here
    core_ = std::move(other.core_);
    return *this;
}

RdmaDevice::RegionKeys Channel::ask_for_keys(std::uint64_t region) {
    ChannelCore& core = *core_;
    const auto lock = core.lock_until_ready();
    ChannelCore::KnownKeys& known = core.known(region);
    const bool again = ++known.uses >= tuning::ask_for_keys_every;
    if ((region != known.region || again) && core.device != nullptr) {
        known = {.region = region, .keys = core.device->keys_of(region)};
    }
    return region == known.region ? known.keys : RdmaDevice::RegionKeys{};
}

std::uint32_t Channel::max_write() const noexcept {
    return core_->device != nullptr ? core_->device->limits().rdma_length : tuning::rdma_chunk;
}

Errc Channel::write(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
                    std::uint64_t to, std::uint64_t remote_key) noexcept {
    const auto lock = core_->lock_until_ready();
    Ticket unused = 0;
    const Errc result = attend(core_->pipe->write(
        from, length, local_key, to, static_cast<std::uint32_t>(remote_key), false, unused));
    if (result == Errc::ok) {
        core_->pipe->slot()->tx.mapped_bytes.add(length);
    }
    return result;
}

Errc Channel::write_and_send(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
                             std::uint64_t to, std::uint64_t remote_key, std::uint8_t id,
                             Ticket& ticket) noexcept {
    const auto lock = core_->lock_until_ready();
    const Errc result = attend(core_->pipe->write_and_send(
        from, length, local_key, to, static_cast<std::uint32_t>(remote_key), id, ticket));
    if (result == Errc::ok) {
        core_->pipe->slot()->tx.mapped_bytes.add(length);
    }
    return result;
}

std::optional<std::uint64_t> Channel::withdraw(std::uint64_t place) noexcept {
    if (core_->life->inherited()) {
        return place; // a forked child: the queue pair is its parent's
    }
    const auto lock = core_->lock_until_ready();
    return core_->pipe->withdraw(place);
}

void Channel::cut() noexcept {
    if (core_->life->inherited()) {
        return; // a forked child: the queue pair is its parent's
    }
    const auto lock = core_->lock_until_ready();
    core_->fail();
    if (core_->pipe) {
        core_->pipe->detach();
    }
    core_->id.reset(); // and with it the queue pair
}

Errc Channel::arm() {
    ChannelCore& core = *core_;
    const auto lock = core.lock_until_ready();
    drain(core.bell.get()); // before what it may have been rung for is looked at
    core.connect_on();
    core.look_at_cm();
    if (core.failed || core.peer_gone || core.life->state() != Errc::ok || core.device->gone() ||
        core.queues->broken() || core.pipe->device_gave_up() || core.pipe->peer_said_goodbye()) {
        return Errc::again; // poll what is left, then check()
    }
    core.pipe->arm(false);
    if (core.queues->arm() != Errc::ok || core.pipe->must_stay_awake(false)) {
        return Errc::again;
    }
    return Errc::ok;
}

bool Channel::peer_gone() {
    ChannelCore& core = *core_;
    const auto lock = core.lock_until_ready();
    return core.failed || core.peer_gone || core.pipe->failed() || core.pipe->device_gave_up() ||
           core.pipe->peer_said_goodbye() || core.life->state() != Errc::ok;
}

bool Channel::was_refused() const noexcept {
    const auto lock = core_->lock_until_ready();
    return core_->refused;
}

Errc Channel::check() {
    ChannelCore& core = *core_;
    const auto lock = core.lock_until_ready();
    if (core.failed) {
        return Errc::connection_reset;
    }
    core.connect_on();
    core.look_at_cm();
    if (core.device && core.device->gone()) {
        core.abandon();
    }
    if (core.failed) {
        return Errc::connection_reset;
    }
    if (core.pipe->corrupt() || core.queues->broken()) {
        core.fail();
        return Errc::connection_reset;
    }
    const Errc life = core.life->state();
    const bool gone = core.pipe->device_gave_up() || core.peer_gone || core.pipe->failed();
    if (!gone && life == Errc::ok && !core.pipe->peer_said_goodbye()) {
        return Errc::ok;
    }
    const bool more = core.peek(); // may find a goodbye
    const bool orderly =
        core.refused || core.pipe->peer_said_goodbye() || (!gone && life == Errc::not_connected);
    const Errc end = core.no_room                             ? Errc::no_memory
                     : orderly || life == Errc::not_connected ? Errc::not_connected
                                                              : Errc::connection_reset;
    core.pipe->break_off(end); // nobody would read it
    return more ? Errc::ok : end;
}

} // namespace comch::link::verbs
