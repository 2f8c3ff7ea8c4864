// All of comch's public API.
#pragma once

#include <comch/capabilities.hpp>
#include <comch/channel.hpp>
#include <comch/client.hpp>
#include <comch/connection.hpp>
#include <comch/consumer.hpp>
#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/memory.hpp>
#include <comch/producer.hpp>
#include <comch/progress.hpp>
#include <comch/server.hpp>
#include <comch/side.hpp>
#include <comch/version.hpp>
