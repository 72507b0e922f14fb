/*
 * A static C++ program: exceptions unwind through frames and threads, iostreams, containers, condition variables.
 * libc: glibc
 */
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <queue>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "test.h"

static int unwound;

struct Counted {
	~Counted() { unwound++; }
};

static void deep(int n)
{
	Counted c;
	if (n == 0)
		throw std::runtime_error("at the bottom");
	deep(n - 1);
}

int main()
{
	try {
		deep(100);
		CHECK(false);
	} catch (const std::exception &e) {
		CHECK(std::string(e.what()) == "at the bottom");
	}
	CHECK_EQUAL(101, unwound);

	std::mutex m;
	std::condition_variable filled;
	std::queue<int> queue;
	std::map<std::string, long> sums;
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++) {
		threads.emplace_back([&, i] {
			for (;;) {
				std::unique_lock<std::mutex> lock(m);
				filled.wait(lock, [&] { return !queue.empty(); });
				int value = queue.front();
				queue.pop();
				if (value < 0)
					return;
				sums["worker " + std::to_string(i)] += value;
			}
		});
	}
	for (int i = 1; i <= 2000; i++) {
		std::lock_guard<std::mutex> lock(m);
		queue.push(i);
		filled.notify_one();
	}
	{
		std::lock_guard<std::mutex> lock(m);
		for (size_t i = 0; i < threads.size(); i++)
			queue.push(-1);
		filled.notify_all();
	}
	for (auto &t : threads)
		t.join();
	long total = 0;
	for (auto &entry : sums)
		total += entry.second;
	CHECK_EQUAL(2001000, total);

	std::thread thrower([] {
		try {
			deep(10);
		} catch (...) {
			unwound += 1000;
		}
	});
	thrower.join();
	CHECK_EQUAL(101 + 11 + 1000, unwound);

	std::ofstream("/tmp/cxx.txt") << "a line\n" << 3.25 << "\n";
	std::ifstream in("/tmp/cxx.txt");
	std::stringstream all;
	all << in.rdbuf();
	CHECK(all.str() == "a line\n3.25\n");
	test_end();
}
