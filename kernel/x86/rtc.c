/* The battery-backed clock (MC146818): read once at boot, taken as UTC. */
#include "kernel/x86/acpi.h"
#include "kernel/x86/clock.h"
#include "kernel/x86/cpu.h"

#define CMOS_INDEX	0x70
#define CMOS_DATA	0x71
enum { RTC_SECONDS = 0, RTC_MINUTES = 2, RTC_HOURS = 4, RTC_DAY = 7, RTC_MONTH = 8, RTC_YEAR = 9, RTC_A = 10, RTC_B = 11 };
#define RTC_A_UPDATING	0x80
#define RTC_B_BINARY	0x04
#define RTC_B_24H	0x02
#define HOUR_PM		0x80

struct rtc_time { u8 second, minute, hour, day, month, year, century; };

static u8 cmos_read(u8 reg)
{
	outb(CMOS_INDEX, reg);
	return inb(CMOS_DATA);
}

static struct rtc_time rtc_read_once(void)
{
	/* Not while it ticks over; the update takes 2 ms at most. */
	for (int i = 0; i < 100000 && (cmos_read(RTC_A) & RTC_A_UPDATING); i++)
		cpu_relax();
	return (struct rtc_time){
		cmos_read(RTC_SECONDS), cmos_read(RTC_MINUTES), cmos_read(RTC_HOURS), cmos_read(RTC_DAY), cmos_read(RTC_MONTH),
		cmos_read(RTC_YEAR), acpi.century_reg ? cmos_read(acpi.century_reg) : 0,
	};
}

static bool same_time(const struct rtc_time *a, const struct rtc_time *b)
{
	return a->second == b->second && a->minute == b->minute && a->hour == b->hour && a->day == b->day &&
	       a->month == b->month && a->year == b->year && a->century == b->century;
}

static u8 from_bcd(u8 v)
{
	return (u8)((v >> 4) * 10 + (v & 15));
}

static void decode(struct rtc_time *t)
{
	u8 mode = cmos_read(RTC_B);
	bool pm = !(mode & RTC_B_24H) && (t->hour & HOUR_PM);

	if (!(mode & RTC_B_24H))
		t->hour &= (u8)~HOUR_PM;
	if (!(mode & RTC_B_BINARY)) {
		t->second = from_bcd(t->second);
		t->minute = from_bcd(t->minute);
		t->hour = from_bcd(t->hour);
		t->day = from_bcd(t->day);
		t->month = from_bcd(t->month);
		t->year = from_bcd(t->year);
		t->century = from_bcd(t->century);
	}
	if (!(mode & RTC_B_24H))
		t->hour = (u8)(t->hour % 12 + (pm ? 12 : 0));
}

/* Days from 1970-01-01 to the given date: years from March, so that the leap day comes last. */
static u64 days_since_1970(u64 year, u64 month, u64 day)
{
	u64 y = month <= 2 ? year - 1 : year;
	u64 m = (month + 9) % 12;		/* March = 0 */

	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

u64 rtc_read_seconds(void)
{
	struct rtc_time a = rtc_read_once(), b = rtc_read_once();

	/* Two equal readings: no update came in between. */
	for (int i = 0; i < 5 && !same_time(&a, &b); i++) {
		a = b;
		b = rtc_read_once();
	}
	decode(&b);
	if (b.second > 60 || b.minute > 59 || b.hour > 23 || b.day < 1 || b.day > 31 || b.month < 1 || b.month > 12 || b.year > 99)
		return 0;
	u64 century = b.century >= 19 && b.century <= 29 ? b.century : b.year < 70 ? 20 : 19;
	u64 days = days_since_1970(century * 100 + b.year, b.month, b.day);
	return ((days * 24 + b.hour) * 60 + b.minute) * 60 + b.second;
}
