// Connected endpoints: how connections begin and end, and what travels between.
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <netinet/in.h>

#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

TEST(Connected, DataTravelsWithRequestAndAnswer) {
    Listener listener("kitchen");
    Client client("kitchen", "two eggs");
    ASSERT_EQ(client.result, 0);
    const CmEvent request = next_event(listener.eq, {client.node.eq});
    ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
    EXPECT_EQ(request.subject, &listener.pep->fid);
    EXPECT_EQ(request.data, "two eggs");
    EXPECT_EQ(fi_send(client.node.ep, "x", 1, nullptr, 0, nullptr) == 0, true); // an error follows
    EXPECT_EQ(await(client.node.tx).error, FI_ENOTCONN);
    {
        Node server(connected(), request.info, listener.fabric);
        EXPECT_EQ(fi_accept(server.ep, "fried", 5), 0);
        EXPECT_EQ(next_event(server.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
        const CmEvent answer = next_event(client.node.eq, {listener.eq});
        EXPECT_EQ(answer.event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(answer.subject, &client.node.ep->fid);
        EXPECT_EQ(answer.data, "fried");

        const std::vector<fid_cq*> cqs = {server.tx, server.rx, client.node.tx, client.node.rx};
        for (const std::size_t length : {std::size_t{5}, std::size_t{5000}, std::size_t{500000}}) {
            const auto data = pattern(length, 1);
            std::vector<char> buffer(length);
            COMCH_FI(fi_recv(server.ep, buffer.data(), length, nullptr, 0, nullptr));
            post([&] { return fi_send(client.node.ep, data.data(), length, nullptr, 0, nullptr); },
                 cqs);
            EXPECT_EQ(await(server.rx, cqs).entry.len, length);
            EXPECT_EQ(await(client.node.tx, cqs).error, 0);
            EXPECT_EQ(buffer, data);
            COMCH_FI(fi_trecv(client.node.ep, buffer.data(), length, nullptr, 0, 4, 0, nullptr));
            post([&] { return fi_tsend(server.ep, data.data(), length, nullptr, 0, 4, nullptr); },
                 cqs);
            EXPECT_EQ(await(client.node.rx, cqs).entry.tag, 4u);
            EXPECT_EQ(await(server.tx, cqs).error, 0);
            server.expose(buffer.data(), length, length);
            std::vector<char> back(length);
            post(
                [&] {
                    return fi_read(client.node.ep, back.data(), length, nullptr, 0, 0, length,
                                   nullptr);
                },
                cqs);
            EXPECT_EQ(await(client.node.tx, cqs).error, 0);
            EXPECT_EQ(back, data);
        }
        // What waits on either side when one of them ends it.
        char byte = 0;
        COMCH_FI(fi_recv(server.ep, &byte, 1, nullptr, 0, &byte));
        EXPECT_EQ(fi_shutdown(client.node.ep, 0), 0);
        EXPECT_EQ(next_event(client.node.eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
        EXPECT_EQ(next_event(server.eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
        EXPECT_EQ(await(server.rx).error, FI_ECANCELED);
        EXPECT_EQ(fi_send(server.ep, "x", 1, nullptr, 0, nullptr), 0);
        EXPECT_EQ(await(server.tx).error, FI_ESHUTDOWN);
    }
    fi_freeinfo(request.info);
}

/// A connection, and both its ends.
struct Connection {
    explicit Connection(const char* service) : listener(service), client(service) {
        COMCH_FI(client.result);
        request = next_event(listener.eq, {client.node.eq});
        server = std::make_unique<Node>(connected(), request.info, listener.fabric);
        COMCH_FI(fi_accept(server->ep, nullptr, 0));
        EXPECT_EQ(next_event(server->eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(next_event(client.node.eq, {server->eq}).event,
                  static_cast<std::uint32_t>(FI_CONNECTED));
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        server.reset();
        fi_freeinfo(request.info);
    }
    Listener listener;
    Client client;
    CmEvent request;
    std::unique_ptr<Node> server;
};

TEST(Connected, AtomicsDataInjectsAndMultipleReceivesWorkAsBetweenDatagrams) {
    Connection between("kitchen");
    Node& client = between.client.node;
    Node& server = *between.server;
    const std::vector<fid_cq*> cqs = {server.tx, server.rx, client.tx, client.rx};
    const auto sent = [&] {
        const Event event = await(client.tx, cqs);
        EXPECT_EQ(event.error, 0) << fi_strerror(event.error);
    };

    // Atomics: plain, fetching and comparing.
    std::uint64_t words[2] = {40, 7};
    server.expose(words, sizeof(words), 1);
    const std::uint64_t two = 2;
    std::uint64_t before = 0;
    post(
        [&] { return fi_atomic(client.ep, &two, 1, nullptr, 0, 0, 1, FI_UINT64, FI_SUM, nullptr); },
        cqs);
    sent();
    post(
        [&] {
            return fi_fetch_atomic(client.ep, &two, 1, nullptr, &before, nullptr, 0, 0, 1,
                                   FI_UINT64, FI_PROD, nullptr);
        },
        cqs);
    sent();
    EXPECT_EQ(before, 42u);
    EXPECT_EQ(words[0], 84u);
    const std::uint64_t seven = 7;
    post(
        [&] {
            return fi_compare_atomic(client.ep, &two, 1, nullptr, &seven, nullptr, &before, nullptr,
                                     0, sizeof(words[0]), 1, FI_UINT64, FI_CSWAP, nullptr);
        },
        cqs);
    sent();
    EXPECT_EQ(before, 7u);
    EXPECT_EQ(words[1], 2u);

    // Remote CQ data, with a message and with a write.
    char room[16] = {};
    COMCH_FI(fi_recv(server.ep, room, sizeof(room), nullptr, 0, nullptr));
    post([&] { return fi_senddata(client.ep, "data", 5, nullptr, 77, 0, nullptr); }, cqs);
    Event event = await(server.rx, cqs);
    EXPECT_EQ(event.entry.data, 77u);
    EXPECT_NE(event.entry.flags & FI_REMOTE_CQ_DATA, 0u);
    EXPECT_STREQ(room, "data");
    sent();
    post(
        [&] {
            return fi_writedata(client.ep, &seven, sizeof(seven), nullptr, 78, 0, 0, 1, nullptr);
        },
        cqs);
    event = await(server.rx, cqs);
    EXPECT_EQ(event.entry.data, 78u);
    EXPECT_NE(event.entry.flags & FI_RMA, 0u);
    EXPECT_EQ(words[0], 7u);
    sent();

    // Injects, into a buffer for many; they complete nothing here.
    std::vector<char> many(4096);
    post_multi_receive(server.ep, many);
    std::string all;
    for (const char* const text : {"one", "two", "three"}) {
        post([&] { return fi_inject(client.ep, text, std::strlen(text), 0); }, cqs);
        all += text;
    }
    std::size_t got = 0;
    while (got < all.size()) {
        event = await(server.rx, cqs);
        ASSERT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.buf, many.data() + got);
        got += event.entry.len;
    }
    EXPECT_EQ(std::string(many.data(), got), all);
    EXPECT_EQ(fi_cq_read(client.tx, &event.entry, 1), -FI_EAGAIN);
}

TEST(Connected, ACloseDropsWhatIsOutstandingWithoutAWord) {
    Connection between("kitchen");
    Node& node = between.client.node;
    const auto data = pattern(500000, 1);
    std::vector<char> room(500000);
    COMCH_FI(fi_recv(node.ep, room.data(), 8, nullptr, 0, nullptr));
    COMCH_FI(fi_trecv(node.ep, room.data(), 8, nullptr, 0, 1, 0, nullptr));
    COMCH_FI(fi_send(node.ep, data.data(), data.size(), nullptr, 0, nullptr));
    COMCH_FI(fi_write(node.ep, data.data(), 8, nullptr, 0, 0, 1, nullptr));
    COMCH_FI(fi_read(node.ep, room.data(), room.size(), nullptr, 0, 0, 1, nullptr));
    const std::uint64_t one = 1;
    COMCH_FI(fi_atomic(node.ep, &one, 1, nullptr, 0, 0, 1, FI_UINT64, FI_SUM, nullptr));
    EXPECT_EQ(fi_close(&std::exchange(node.ep, nullptr)->fid), 0);
    for (fid_cq* const cq : {node.tx, node.rx}) {
        fi_cq_tagged_entry entry{};
        EXPECT_EQ(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    }
    for (fid_cntr* const counter : node.counters) {
        EXPECT_EQ(fi_cntr_readerr(counter), 0u);
    }
    EXPECT_EQ(next_event(between.server->eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
}

TEST(Connected, AReceiveThatIsPostedAfterTheEndFails) {
    Connection between("kitchen");
    Node& node = between.client.node;
    COMCH_FI(fi_inject(between.server->ep, "before", 7, 0));
    between.server.reset();
    EXPECT_EQ(next_event(node.eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
    char room[256] = {};
    const iovec iov{room, sizeof(room)};
    fi_msg several{};
    several.msg_iov = &iov;
    several.iov_count = 1;
    several.context = &several;
    COMCH_FI(fi_recvmsg(node.ep, &several, FI_MULTI_RECV));
    Event event = await(node.rx);
    EXPECT_EQ(event.error, 0);
    EXPECT_EQ(event.entry.flags & FI_MULTI_RECV, 0u);
    EXPECT_STREQ(room, "before");
    event = await(node.rx);
    EXPECT_EQ(event.error, FI_ECANCELED);
    EXPECT_EQ(event.failure.op_context, &several);
    EXPECT_NE(event.failure.flags & FI_MULTI_RECV, 0u);
    for (int i = 0; i < 2; ++i) {
        COMCH_FI(fi_recv(node.ep, room, sizeof(room), nullptr, 0, room));
        event = await(node.rx);
        EXPECT_EQ(event.error, FI_ECANCELED);
        EXPECT_EQ(event.failure.op_context, room);
        COMCH_FI(fi_trecv(node.ep, room, sizeof(room), nullptr, 0, 1, 0, room));
        EXPECT_EQ(await(node.rx).error, FI_ECANCELED);
    }
    EXPECT_EQ(fi_cntr_readerr(node.counters[1]), 5u);
}

/// Fills the ring to an end that does not progress.
template <class Send> void fill(Send&& send) {
    while (send() == 0) {
    }
}

TEST(Connected, AnswersGoOutBeforeTheEnd) {
    for (const bool closes : {true, false}) {
        Connection between("kitchen");
        Node& sender = between.client.node;
        Node& receiver = *between.server;
        const auto data = pattern(500000, 1);
        std::vector<char> room(data.size());
        COMCH_FI(fi_recv(receiver.ep, room.data(), room.size(), nullptr, 0, nullptr));
        COMCH_FI(fi_send(sender.ep, data.data(), data.size(), nullptr, 0, nullptr));
        fill([&] { return fi_inject(receiver.ep, "x", 1, 0); });
        EXPECT_EQ(await(receiver.rx).entry.len, data.size());
        std::thread ends([&] {
            EXPECT_EQ(closes ? fi_close(&std::exchange(receiver.ep, nullptr)->fid)
                             : fi_shutdown(receiver.ep, 0),
                      0);
        });
        EXPECT_EQ(await(sender.tx).error, 0);
        ends.join();
        EXPECT_EQ(room, data);
    }
}

TEST(Connected, ARefusalCarriesData) {
    Listener listener("kitchen");
    Client client("kitchen");
    const CmEvent request = next_event(listener.eq, {client.node.eq});
    EXPECT_EQ(fi_reject(listener.pep, request.info->handle, "closed", 6), 0);
    const CmEvent answer = next_event(client.node.eq, {listener.eq});
    EXPECT_EQ(answer.error, FI_ECONNREFUSED);
    EXPECT_EQ(answer.data, "closed");
    fi_freeinfo(request.info);
}

/// A connected endpoint that is bound, but not enabled.
struct Disabled {
    Disabled(fid_fabric* fabric, fi_info* info) {
        COMCH_FI(fi_domain(fabric, info, &domain, nullptr));
        fi_cq_attr cq_attr{};
        COMCH_FI(fi_cq_open(domain, &cq_attr, &cq, nullptr));
        fi_eq_attr eq_attr{};
        COMCH_FI(fi_eq_open(fabric, &eq_attr, &eq, nullptr));
        COMCH_FI(fi_endpoint(domain, info, &ep, nullptr));
        COMCH_FI(fi_ep_bind(ep, &eq->fid, 0));
    }
    Disabled(const Disabled&) = delete;
    Disabled& operator=(const Disabled&) = delete;
    ~Disabled() {
        EXPECT_EQ(fi_close(&ep->fid), 0);
        EXPECT_EQ(fi_close(&cq->fid), 0);
        EXPECT_EQ(fi_close(&eq->fid), 0);
        EXPECT_EQ(fi_close(&domain->fid), 0);
    }
    void bind_queue() const { COMCH_FI(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV)); }
    fid_domain* domain = nullptr;
    fid_cq* cq = nullptr;
    fid_eq* eq = nullptr;
    fid_ep* ep = nullptr;
};

TEST(Connected, ConnectAndAcceptEnable) {
    Listener listener("kitchen");
    {
        InfoHints hints;
        hints->ep_attr->type = FI_EP_MSG;
        fi_info* const there = query(hints.value, "kitchen");
        Disabled client(listener.fabric, there);
        EXPECT_EQ(fi_connect(client.ep, there->dest_addr, nullptr, 0), -FI_ENOCQ);
        client.bind_queue();
        COMCH_FI(fi_connect(client.ep, there->dest_addr, nullptr, 0));
        const CmEvent request = next_event(listener.eq, {client.eq});
        ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
        Disabled server(listener.fabric, request.info);
        server.bind_queue();
        COMCH_FI(fi_accept(server.ep, nullptr, 0));
        EXPECT_EQ(next_event(server.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(next_event(client.eq, {server.eq}).event,
                  static_cast<std::uint32_t>(FI_CONNECTED));
        fi_freeinfo(request.info);
        fi_freeinfo(there);
    }
}

TEST(Connected, ARequestOutlivesItsListener) {
    fid_fabric* fabric = nullptr;
    for (int round = 0; round < 2; ++round) {
        InfoHints hints;
        hints->ep_attr->type = FI_EP_MSG;
        fi_info* const here = query(hints.value, "kitchen", FI_SOURCE);
        COMCH_FI(fi_fabric(here->fabric_attr, &fabric, nullptr));
        fi_eq_attr attr{};
        fid_eq* eq = nullptr;
        fid_pep* pep = nullptr;
        COMCH_FI(fi_eq_open(fabric, &attr, &eq, nullptr));
        COMCH_FI(fi_passive_ep(fabric, here, &pep, nullptr));
        COMCH_FI(fi_pep_bind(pep, &eq->fid, 0));
        COMCH_FI(fi_listen(pep));
        Client caller("kitchen");
        const CmEvent request = next_event(eq, {caller.node.eq});
        ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
        EXPECT_EQ(fi_close(&pep->fid), 0);
        EXPECT_EQ(request.info->handle->fclass, static_cast<std::size_t>(FI_CLASS_CONNREQ));
        if (round == 0) { // in the other it is never answered
            Node server(connected(), request.info, fabric);
            EXPECT_EQ(fi_accept(server.ep, nullptr, 0), -FI_ECONNABORTED);
        }
        EXPECT_EQ(fi_close(&eq->fid), 0);
        EXPECT_EQ(fi_close(&fabric->fid), 0);
        fi_freeinfo(request.info);
        fi_freeinfo(here);
    }
}

/// A passive endpoint that does not listen yet.
class Passive {
public:
    explicit Passive(fi_info* offer) {
        COMCH_FI(fi_fabric(offer->fabric_attr, &fabric_, nullptr));
        COMCH_FI(fi_passive_ep(fabric_, offer, &pep_, nullptr));
    }
    Passive(const Passive&) = delete;
    Passive& operator=(const Passive&) = delete;
    ~Passive() {
        fi_close(&pep_->fid);
        fi_close(&fabric_->fid);
    }
    [[nodiscard]] std::vector<std::byte> name() const {
        std::vector<std::byte> bytes(256);
        std::size_t length = bytes.size();
        COMCH_FI(fi_getname(&pep_->fid, bytes.data(), &length));
        bytes.resize(length);
        return bytes;
    }
    [[nodiscard]] int set_name(std::vector<std::byte> bytes) const {
        return fi_setname(&pep_->fid, bytes.data(), bytes.size());
    }

private:
    fid_fabric* fabric_ = nullptr;
    fid_pep* pep_ = nullptr;
};

TEST(Connected, AListenerWithoutANameHasItsPortsAddress) {
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fi_info* const offer = query(hints.value);
    ASSERT_NE(offer, nullptr);
    const Passive first(offer);
    const Passive second(offer);
    const std::vector<std::byte> own = first.name();
    EXPECT_NE(own, second.name()) << "the offer has no address yet";
    EXPECT_EQ(first.set_name(own), 0);
    EXPECT_EQ(first.set_name(second.name()), -FI_EINVAL) << "another's";
    EXPECT_EQ(first.name(), own);

    // It listens there.
    const Listener listener(nullptr, offer);
    std::vector<std::byte> place(256);
    std::size_t length = place.size();
    COMCH_FI(fi_getname(&listener.pep->fid, place.data(), &length));
    Node client(connected());
    COMCH_FI(fi_connect(client.ep, place.data(), nullptr, 0));
    const CmEvent request = next_event(listener.eq, {client.eq});
    EXPECT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
    EXPECT_EQ(fi_setname(&listener.pep->fid, place.data(), length), -FI_EOPBADSTATE);
    COMCH_FI(fi_reject(listener.pep, request.info->handle, nullptr, 0));
    fi_freeinfo(request.info);
}

TEST(Connected, WhoComesTooLateIsRefusedThoughARequestIsLeftOver) {
    Node late(connected());
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fi_info* const here = query(hints.value, "kitchen", FI_SOURCE);
    fid_fabric* fabric = nullptr;
    fi_eq_attr attr{};
    fid_eq* eq = nullptr;
    fid_pep* pep = nullptr;
    COMCH_FI(fi_fabric(here->fabric_attr, &fabric, nullptr));
    COMCH_FI(fi_eq_open(fabric, &attr, &eq, nullptr));
    COMCH_FI(fi_passive_ep(fabric, here, &pep, nullptr));
    COMCH_FI(fi_pep_bind(pep, &eq->fid, 0));
    COMCH_FI(fi_listen(pep));
    const Client first("kitchen");
    const CmEvent request = next_event(eq, {first.node.eq});
    ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
    InfoHints to;
    to->ep_attr->type = FI_EP_MSG;
    fi_info* const there = query(to.value, "kitchen");
    COMCH_FI(fi_connect(late.ep, there->dest_addr, nullptr, 0)); // nobody has looked at it yet
    EXPECT_EQ(fi_close(&pep->fid), 0);
    EXPECT_EQ(next_event(late.eq).error, FI_ECONNREFUSED);
    EXPECT_EQ(fi_close(&eq->fid), 0);
    EXPECT_EQ(fi_close(&fabric->fid), 0);
    fi_freeinfo(request.info);
    fi_freeinfo(there);
    fi_freeinfo(here);
}

TEST(Connected, ARequestThatHasAnEndpointIsNobodyElses) {
    Listener listener("kitchen");
    Client client("kitchen");
    const CmEvent request = next_event(listener.eq, {client.node.eq});
    {
        Node server(connected(), request.info, listener.fabric);
        // As a program does that gives up, whatever it was that failed.
        EXPECT_EQ(fi_reject(listener.pep, request.info->handle, nullptr, 0), -FI_EINVAL);
        fid_ep* second = nullptr;
        EXPECT_EQ(fi_endpoint(server.domain, request.info, &second, nullptr), -FI_EINVAL);
        COMCH_FI(fi_accept(server.ep, nullptr, 0));
        EXPECT_EQ(next_event(client.node.eq, {server.eq}).event,
                  static_cast<std::uint32_t>(FI_CONNECTED));
    }
    fi_freeinfo(request.info);
}

TEST(Connected, DataThatIsTooLongIsCutOff) {
    Listener listener("kitchen");
    const std::string data(500, 'd');
    Client client("kitchen", data.c_str());
    ASSERT_EQ(client.result, 0);
    const CmEvent request = next_event(listener.eq, {client.node.eq});
    std::size_t most = 0;
    std::size_t size = sizeof(most);
    COMCH_FI(fi_getopt(&listener.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &size));
    EXPECT_EQ(request.data, data.substr(0, most));
    COMCH_FI(fi_reject(listener.pep, request.info->handle, data.data(), data.size()));
    EXPECT_EQ(next_event(client.node.eq, {listener.eq}).data, data.substr(0, most));
    fi_freeinfo(request.info);
}

TEST(Connected, ErrorDataIsTheProvidersForProgramsBefore1_5) {
    for (const std::uint32_t version : {FI_VERSION(1, 4), FI_VERSION(1, 5)}) {
        Listener listener("kitchen");
        InfoHints hints;
        hints->ep_attr->type = FI_EP_MSG;
        hints->domain_attr->mr_mode = FI_MR_SCALABLE;
        fi_info* there = nullptr;
        ASSERT_EQ(fi_getinfo(version, nullptr, "kitchen", 0, hints.value, &there), 0);
        fid_fabric* fabric = nullptr;
        COMCH_FI(fi_fabric(there->fabric_attr, &fabric, nullptr));
        {
            Disabled client(fabric, there);
            client.bind_queue();
            COMCH_FI(fi_connect(client.ep, there->dest_addr, nullptr, 0));
            const CmEvent request = next_event(listener.eq, {client.eq});
            COMCH_FI(fi_reject(listener.pep, request.info->handle, "closed", 6));
            fi_freeinfo(request.info);
            char room[64] = "as before";
            fi_eq_err_entry failure{};
            failure.err_data = room; // older programs do not set these
            failure.err_data_size = sizeof(room);
            const auto end = Clock::now() + std::chrono::seconds(60);
            std::uint32_t event = 0;
            while (fi_eq_read(client.eq, &event, nullptr, 0, 0) != -FI_EAVAIL) {
                ASSERT_LT(Clock::now(), end);
            }
            EXPECT_GT(fi_eq_readerr(client.eq, &failure, 0), 0);
            EXPECT_EQ(std::string(static_cast<char*>(failure.err_data), failure.err_data_size),
                      "closed");
            EXPECT_EQ(std::string(room, 6), version < FI_VERSION(1, 5) ? "as bef" : "closed");
        }
        EXPECT_EQ(fi_close(&fabric->fid), 0);
        fi_freeinfo(there);
    }
}

TEST(Connected, TheDomainsEventQueueIsOfEndpointsWithoutOne) {
    Listener listener("kitchen");
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fi_info* const there = query(hints.value, "kitchen");
    fid_domain* domain = nullptr;
    fid_eq* eq = nullptr;
    fid_cq* cq = nullptr;
    fid_ep* ep = nullptr;
    fi_eq_attr eq_attr{};
    fi_cq_attr cq_attr{};
    COMCH_FI(fi_domain(listener.fabric, there, &domain, nullptr));
    COMCH_FI(fi_eq_open(listener.fabric, &eq_attr, &eq, nullptr));
    EXPECT_EQ(fi_domain_bind(domain, &eq->fid, FI_REG_MR), -FI_EBADFLAGS);
    COMCH_FI(fi_domain_bind(domain, &eq->fid, 0));
    COMCH_FI(fi_cq_open(domain, &cq_attr, &cq, nullptr));
    COMCH_FI(fi_endpoint(domain, there, &ep, nullptr));
    COMCH_FI(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    COMCH_FI(fi_connect(ep, there->dest_addr, nullptr, 0));
    const CmEvent request = next_event(listener.eq, {eq});
    COMCH_FI(fi_reject(listener.pep, request.info->handle, nullptr, 0));
    const CmEvent answer = next_event(eq, {listener.eq});
    EXPECT_EQ(answer.subject, &ep->fid);
    EXPECT_EQ(answer.error, FI_ECONNREFUSED);
    EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&ep->fid), 0);
    EXPECT_EQ(fi_close(&cq->fid), 0);
    EXPECT_EQ(fi_close(&domain->fid), 0);
    EXPECT_EQ(fi_close(&eq->fid), 0);
    fi_freeinfo(request.info);
    fi_freeinfo(there);
}

TEST(Connected, ADomainOfDatagramsTakesNone) {
    Node datagrams;
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fi_info* const info = query(hints.value);
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(datagrams.domain, info, &ep, nullptr), -FI_EINVAL);
    fi_freeinfo(info);
}

TEST(Connected, NobodyUnderThatNameRefuses) {
    Client client("nobody");
    EXPECT_EQ(client.result, 0);
    EXPECT_EQ(next_event(client.node.eq).error, FI_ECONNREFUSED);
}

TEST(Connected, ANameIsTakenOnce) {
    Listener listener("kitchen");
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fid_pep* second = nullptr;
    COMCH_FI(fi_passive_ep(listener.fabric, listener.info, &second, nullptr));
    COMCH_FI(fi_pep_bind(second, &listener.eq->fid, 0));
    EXPECT_EQ(fi_listen(second), -FI_EADDRINUSE);
    EXPECT_EQ(fi_close(&second->fid), 0);
}

TEST(Connected, AClientThatGivesUpLeavesNothing) {
    Listener listener("kitchen");
    CmEvent request;
    {
        Client client("kitchen");
        request = next_event(listener.eq, {client.node.eq});
    }
    for (int i = 0; i < 100000; ++i) {
        std::uint32_t event = 0;
        char buffer[512];
        (void)fi_eq_read(listener.eq, &event, buffer, sizeof(buffer), FI_PEEK);
    }
    Node server(connected(), request.info, listener.fabric);
    if (fi_accept(server.ep, nullptr, 0) == 0) { // it may not have heard yet
        EXPECT_EQ(next_event(server.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(next_event(server.eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
    }
    fi_freeinfo(request.info);
}

/// What is offered to programs that want addresses of sockets.
fi_info* socket_offer(const char* service, std::uint64_t flags) {
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    return query(hints.value, service, flags);
}

TEST(SocketAddresses, AreOfServicesWithNumbers) {
    fi_info* const here = socket_offer("5017", FI_SOURCE);
    ASSERT_NE(here, nullptr);
    EXPECT_EQ(here->addr_format, FI_SOCKADDR_IN);
    ASSERT_EQ(here->src_addrlen, sizeof(sockaddr_in));
    sockaddr_in address{};
    std::memcpy(&address, here->src_addr, sizeof(address));
    EXPECT_EQ(address.sin_family, AF_INET);
    EXPECT_EQ(ntohs(address.sin_port), 5017);
    EXPECT_EQ(ntohl(address.sin_addr.s_addr) >> 24, 127u);
    fi_info* const there = socket_offer("5017", 0);
    ASSERT_NE(there, nullptr);
    EXPECT_EQ(std::memcmp(there->dest_addr, &address, sizeof(address)), 0);
    fi_freeinfo(here);
    fi_freeinfo(there);
    EXPECT_EQ(socket_offer("echo", FI_SOURCE), nullptr) << "a service of sockets is a number";
    EXPECT_EQ(socket_offer("65536", FI_SOURCE), nullptr);
    InfoHints datagrams;
    datagrams->ep_attr->type = FI_EP_RDM;
    datagrams->addr_format = FI_SOCKADDR_IN;
    EXPECT_EQ(query(datagrams.value), nullptr);
}

TEST(SocketAddresses, AListenerMayBeNamedLater) {
    fi_info* const offer = socket_offer(nullptr, 0);
    ASSERT_NE(offer, nullptr);
    sockaddr_in chosen{};
    std::memcpy(&chosen, offer->src_addr, sizeof(chosen));
    sockaddr_in given = chosen;
    chosen.sin_port = given.sin_port = htons(5019);
    given.sin_addr.s_addr = htonl(INADDR_LOOPBACK); // the device's own function
    std::free(offer->src_addr);
    offer->src_addr = nullptr;
    offer->src_addrlen = 0;
    fid_fabric* fabric = nullptr;
    fid_pep* pep = nullptr;
    COMCH_FI(fi_fabric(offer->fabric_attr, &fabric, nullptr));
    COMCH_FI(fi_passive_ep(fabric, offer, &pep, nullptr));
    COMCH_FI(fi_setname(&pep->fid, &given, sizeof(given)));
    sockaddr_in name{};
    std::size_t length = sizeof(name);
    COMCH_FI(fi_getname(&pep->fid, &name, &length));
    EXPECT_EQ(std::memcmp(&name, &chosen, sizeof(name)), 0);
    EXPECT_EQ(fi_close(&pep->fid), 0);
    EXPECT_EQ(fi_close(&fabric->fid), 0);
    fi_freeinfo(offer);
}

TEST(SocketAddresses, AListenerWithoutAPortGetsOneAndPeersConnectToIt) {
    Listener listener(nullptr, socket_offer(nullptr, 0));
    sockaddr_in name{};
    std::size_t length = sizeof(name);
    COMCH_FI(fi_getname(&listener.pep->fid, &name, &length));
    EXPECT_GE(ntohs(name.sin_port), 49152);

    fi_info* const offer = socket_offer(nullptr, 0);
    Node client(connected(), offer);
    COMCH_FI(fi_connect(client.ep, &name, "hello", 5));
    const CmEvent request = next_event(listener.eq, {client.eq});
    ASSERT_EQ(request.event, FI_CONNREQ);
    EXPECT_EQ(request.data, "hello");
    ASSERT_EQ(request.info->dest_addrlen, sizeof(sockaddr_in));
    sockaddr_in from{};
    std::memcpy(&from, request.info->dest_addr, sizeof(from));
    EXPECT_EQ(from.sin_addr.s_addr, name.sin_addr.s_addr);
    {
        Node server(connected(), request.info, listener.fabric);
        COMCH_FI(fi_accept(server.ep, nullptr, 0));
        sockaddr_in accepted{};
        length = sizeof(accepted);
        COMCH_FI(fi_getname(&server.ep->fid, &accepted, &length));
        EXPECT_EQ(std::memcmp(&accepted, &name, sizeof(name)), 0) << "where it was called";
        EXPECT_EQ(next_event(server.eq, {client.eq}).event, FI_CONNECTED);
        EXPECT_EQ(next_event(client.eq, {server.eq}).event, FI_CONNECTED);
    }
    EXPECT_EQ(next_event(client.eq, {listener.eq}).event, FI_SHUTDOWN);
    fi_freeinfo(request.info);
    fi_freeinfo(offer);
}

} // namespace
} // namespace comch::ofi::test
