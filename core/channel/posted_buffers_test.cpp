#include <gtest/gtest.h>

#include "core/channel/posted_buffers.hpp"

namespace comch::channel {
namespace {

PostedBuffer buffer(std::size_t room) {
    return {.tail = nullptr, .room = static_cast<std::uint32_t>(room)};
}

TEST(PostedBuffers, IsAQueueThatTakesBuffersBackAtItsFront) {
    PostedBuffers posted(4);
    for (unsigned lap = 0; lap < 10; ++lap) {
        EXPECT_TRUE(posted.empty());
        for (const std::size_t room : {1u, 2u, 3u, 4u}) {
            posted.push_back(buffer(room));
        }
        EXPECT_EQ(posted.size(), 4u);
        EXPECT_EQ(posted.pop_front().room, 1u);
        EXPECT_EQ(posted.pop_front().room, 2u);
        posted.push_front(buffer(2));
        posted.push_front(buffer(1));
        for (const std::size_t room : {1u, 2u, 3u, 4u}) {
            EXPECT_EQ(posted.front().room, room);
            EXPECT_EQ(posted.pop_front().room, room);
        }
    }
}

TEST(PostedBuffers, GivesTheLastBack) {
    PostedBuffers posted(4);
    for (unsigned lap = 0; lap < 10; ++lap) {
        for (const std::size_t room : {1u, 1u, 2u}) {
            posted.push_back(buffer(room));
        }
        EXPECT_EQ(posted.pop_back().room, 2u);
        EXPECT_TRUE(posted.uniform());
        posted.push_back(buffer(3));
        EXPECT_FALSE(posted.uniform());
        EXPECT_EQ(posted.pop_front().room, 1u);
        EXPECT_EQ(posted.pop_back().room, 3u);
        EXPECT_EQ(posted.pop_back().room, 1u);
        EXPECT_TRUE(posted.uniform() && posted.empty());
    }
}

TEST(PostedBuffers, KnowsWhetherAllHaveTheSameRoom) {
    PostedBuffers posted(8);
    EXPECT_TRUE(posted.uniform());
    posted.push_back(buffer(5));
    posted.push_back(buffer(5));
    EXPECT_TRUE(posted.uniform());
    posted.push_back(buffer(6));
    EXPECT_FALSE(posted.uniform());
    posted.push_back(buffer(6));
    posted.push_back(buffer(5));
    posted.pop_front();
    EXPECT_FALSE(posted.uniform());
    posted.pop_front();
    EXPECT_FALSE(posted.uniform());
    posted.pop_front();
    posted.pop_front();
    EXPECT_TRUE(posted.uniform());
    posted.push_front(buffer(9));
    EXPECT_FALSE(posted.uniform());
    posted.pop_front();
    posted.pop_front();
    EXPECT_TRUE(posted.uniform() && posted.empty());
}

} // namespace
} // namespace comch::channel
