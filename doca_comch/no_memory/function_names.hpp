// The functions of this program by address, local ones as well, from its own file's symbols.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" const char __ehdr_start; // the linker's: where the program's file begins in memory

namespace comch::doca::test {

class FunctionNames {
public:
    FunctionNames() {
        const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        struct stat about {};
        if (fd >= 0 && ::fstat(fd, &about) == 0) {
            void* const file = ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ,
                                      MAP_PRIVATE, fd, 0); // stays: the names are in it
            if (file != MAP_FAILED) {
                read(static_cast<const char*>(file));
            }
        }
        ::close(fd);
    }

    /// The mangled name; empty of what is in no function of this program.
    [[nodiscard]] std::string_view at(const void* address) const {
        const auto offset = reinterpret_cast<std::uintptr_t>(address) -
                            reinterpret_cast<std::uintptr_t>(&__ehdr_start);
        const auto after = std::upper_bound(
            functions_.begin(), functions_.end(), offset,
            [](std::uintptr_t wanted, const Function& each) { return wanted < each.begin; });
        if (after == functions_.begin() || offset >= std::prev(after)->end) {
            return {};
        }
        return std::prev(after)->name;
    }

private:
    struct Function {
        std::uintptr_t begin;
        std::uintptr_t end;
        const char* name;
    };

    void read(const char* file) {
        const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(file);
        const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(file + header.e_shoff);
        for (const auto* each = sections; each != sections + header.e_shnum; ++each) {
            if (each->sh_type == SHT_SYMTAB) {
                read(reinterpret_cast<const Elf64_Sym*>(file + each->sh_offset),
                     each->sh_size / sizeof(Elf64_Sym), file + sections[each->sh_link].sh_offset);
            }
        }
        std::sort(functions_.begin(), functions_.end(),
                  [](const Function& a, const Function& b) { return a.begin < b.begin; });
    }
    void read(const Elf64_Sym* symbols, std::size_t count, const char* names) {
        for (const auto* each = symbols; each != symbols + count; ++each) {
            if (ELF64_ST_TYPE(each->st_info) == STT_FUNC && each->st_size != 0) {
                functions_.push_back(
                    {each->st_value, each->st_value + each->st_size, names + each->st_name});
            }
        }
    }

    std::vector<Function> functions_;
};

} // namespace comch::doca::test
