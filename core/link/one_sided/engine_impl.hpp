// The definitions of OneSidedEngine: to be included where it is instantiated.
#pragma once

#include "core/link/one_sided/bookkeeping_impl.hpp"
#include "core/link/one_sided/joint_impl.hpp"
#include "core/link/one_sided/kernel_impl.hpp"
#include "core/link/one_sided/requests_impl.hpp"
#include "core/link/one_sided/serving_impl.hpp"
#include "core/link/one_sided/withdrawal_impl.hpp"
