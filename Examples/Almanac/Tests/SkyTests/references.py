"""Writes References.swift: what independent packages compute.

pip install de421==2008.1 jplephem==2.24 pyerfa==2.0.1.5 pyswisseph==2.10.3.2 tzdata==2026.6
pip install --no-deps PyJHora==4.8.7
python references.py > References.swift && swift format -i References.swift
"""

import contextlib
import io
import random
import sys
from datetime import datetime, timezone
from unittest.mock import MagicMock
from zoneinfo import ZoneInfo

import de421
import erfa
import numpy as np
import swisseph as swe
from jplephem.ephem import Ephemeris

EPHEMERIS = Ephemeris(de421)
LIGHT = 173.1446326742403  # Astronomical units a day.
MOSHIER = swe.FLG_MOSEPH
swe.set_sid_mode(swe.SIDM_LAHIRI)
PLANETS = "sun moon mercury venus mars jupiter saturn uranus neptune".split()
random.seed(30)


def place(body, tt):
    """Returns a barycentric position in DE421."""
    if body not in ("earth", "moon"):
        return EPHEMERIS.position(body, tt).ravel() / EPHEMERIS.AU
    both, moon = (EPHEMERIS.position(name, tt).ravel() for name in ("earthmoon", "moon"))
    share = -EPHEMERIS.earth_share if body == "earth" else EPHEMERIS.moon_share
    return (both + moon * share) / EPHEMERIS.AU


def apparent(body, ut):
    """Returns the apparent longitude on the true ecliptic of the date (IAU 2006 and 2000A)."""
    tt = ut + swe.deltat(ut)
    earth = place("earth", tt)
    velocity = (place("earth", tt + 0.01) - place("earth", tt - 0.01)) / 0.02 / LIGHT
    light_time = 0
    for _ in range(3):
        direction = place(body, tt - light_time) - earth
        light_time = np.linalg.norm(direction) / LIGHT
    direction = direction / np.linalg.norm(direction)
    direction = erfa.ab(direction, velocity, 1.0, float(np.sqrt(1 - velocity @ velocity)))
    x, y, z = erfa.pnm06a(tt, 0) @ direction
    tilt = erfa.obl06(tt, 0) + erfa.nut06a(tt, 0)[1]
    return np.degrees(np.arctan2(y * np.cos(tilt) + z * np.sin(tilt), x)) % 360


def table(name, kind, comment, rows):
    print(f"\n    /// {comment}\n    static let {name}: [{kind}] = [")
    for row in rows:
        print(f"        {row},")
    print("    ]")


def positions():
    for index in range(12):
        ut = round(2415021 + index * 4979 + random.random() * 4000, 4)
        values = ", ".join(f"{apparent(body, ut):.4f}" for body in PLANETS)
        yield f"({ut}, [{values}])"


def frames():
    for index in range(8):
        ut = round(2415021 + index * 7468 + random.random() * 4000, 4)
        tilt = swe.calc_ut(ut, swe.ECL_NUT, MOSHIER)[0]
        node, true = (
            swe.calc_ut(ut, body, MOSHIER)[0][0] for body in (swe.MEAN_NODE, swe.TRUE_NODE)
        )
        ayanamsa = swe.get_ayanamsa_ex_ut(ut, MOSHIER | swe.FLG_NONUT)[1]
        values = ayanamsa, tilt[0], swe.sidtime(ut) * 15, node, true
        yield f"({ut}, [{', '.join(f'{value:.4f}' for value in values)}])"


def horizons():
    places = [(41.0082, 28.9784), (-33.8688, 151.2093), (64.1466, -21.9426), (0, 0), (28.6139, 77.209)]
    for index, (north, east) in enumerate(places * 2):
        ut = round(2420000 + index * 4000 + random.random() * 3000, 4)
        ascendant, midheaven = swe.houses(ut, north, east, b"W")[1][:2]
        yield f"({ut}, {north}, {east}, {ascendant:.4f}, {midheaven:.4f})"


def times():
    for date, time, zone in (
        ("1990-05-17", "14:35", "Europe/Istanbul"),
        ("1900-01-01", "00:00", "America/New_York"),
        ("1942-07-01", "12:00", "Europe/London"),
        ("1944-01-15", "06:30", "Asia/Kolkata"),
        ("1978-06-01", "23:59", "Europe/Istanbul"),
        ("2000-02-29", "08:15", "Asia/Kathmandu"),
        ("2011-12-29", "20:00", "Pacific/Apia"),
        ("2016-08-01", "01:00", "America/Sao_Paulo"),
        ("2050-12-31", "23:59", "UTC"),
        # Outside of the seconds since 1970 that 32 bits can hold.
        ("1901-01-01", "12:00", "Europe/Berlin"),
        ("1905-06-01", "12:00", "Europe/Istanbul"),
        ("2045-07-04", "12:00", "America/New_York"),
        ("2045-01-04", "12:00", "America/Santiago"),
    ):
        local = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=ZoneInfo(zone))
        text = local.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield f'("{date}", "{time}", "{zone}", "{text}")'


def ingresses():
    signs = """aries taurus gemini cancer leo virgo
        libra scorpio sagittarius capricorn aquarius pisces""".split()

    def longitude(body, ut, sidereal):
        if body == "rahu":
            flags = MOSHIER | (swe.FLG_SIDEREAL if sidereal else 0)
            return swe.calc_ut(ut, swe.MEAN_NODE, flags)[0][0]
        shift = swe.get_ayanamsa_ex_ut(ut, MOSHIER)[1] if sidereal else 0
        return (apparent(body, ut) - shift) % 360

    for body, year, sidereal in (
        ("saturn", 2020, False),
        ("saturn", 2022, True),
        ("jupiter", 2022, False),
        ("jupiter", 1995, True),
        ("jupiter", 2021, True),
        ("mars", 2007, True),
        ("rahu", 2005, True),
        ("rahu", 1964, False),
    ):
        start, end = swe.julday(year, 1, 1, 0), swe.julday(year + 1, 1, 1, 0)
        found, before = [], start
        known = longitude(body, start, sidereal)
        while before < end:
            after = min(before + 0.5, end)
            value = longitude(body, after, sidereal)
            if int(value / 30) != int(known / 30):
                low, high, sign = before, after, int(known / 30)
                while high - low > 1e-6:
                    middle = (low + high) / 2
                    if int(longitude(body, middle, sidereal) / 30) == sign:
                        low = middle
                    else:
                        high = middle
                found.append(f"(.{signs[int(value / 30)]}, {high:.4f})")
            before, known = after, value
        zodiac = "sidereal" if sidereal else "tropical"
        yield f"(.{body}, {year}, .{zodiac}, [{', '.join(found)}])"


def hora():
    """Imports PyJHora without the packages for its windows and its geography."""
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(20):
            try:
                from jhora.horoscope.dhasa.graha import vimsottari
                from jhora.horoscope.match.compatibility import Ashtakoota

                return vimsottari, Ashtakoota
            except ModuleNotFoundError as error:
                sys.modules[error.name] = MagicMock()


def dashas(vimsottari):
    lords = "sun moon mars mercury jupiter venus saturn rahu ketu".split()
    vimsottari.year_duration = 365.25
    for moon in (0.0, 23.4567, 125.0, 203.3210, 300.0, 359.99):
        vimsottari.charts.get_chart_element_longitude = lambda *_, moon=moon: moon
        periods = list(vimsottari.vimsottari_mahadasa(2448029.0, None).items())
        lord, start = periods[1]
        parts = vimsottari._vimsottari_bhukti(lord, start)
        periods = ", ".join(f"(.{lords[lord]}, {start:.3f})" for lord, start in periods)
        parts = ", ".join(f"(.{lords[lord]}, {start:.3f})" for lord, start in parts.items())
        yield f"({moon}, [{periods}], [{parts}])"


def matches(ashtakoota):
    for _ in range(60):
        # PyJHora confuses the halves of Sagittarius and Capricorn, which are quarters 72 to 89.
        groom, bride = random.sample([*range(72), *range(90, 108)], 2)
        match = ashtakoota(groom // 4 + 1, groom % 4 + 1, bride // 4 + 1, bride % 4 + 1)
        # Bhakoot is symmetrical, but PyJHora gives Cancer with Aquarius 7 in one direction.
        other = ashtakoota(bride // 4 + 1, bride % 4 + 1, groom // 4 + 1, groom % 4 + 1)
        scores = [
            match.vasiya_porutham(), match.yoni_porutham(),
            match.maitri_porutham(), match.gana_porutham(), min(match.raasi_porutham(), other.raasi_porutham()),
            match.naadi_porutham(),
        ]  # fmt: skip
        values = ", ".join(f"{float(score[0]):g}" for score in scores)
        yield f"({groom}, {bride}, [{values}])"


print("@testable import AlmanacSky\n")
print("/// What independent packages compute, written by `references.py`, which names them.")
print("enum References {")
table(
    "positions", "(julianDay: Double, longitudes: [Double])",
    "The longitudes of Sun, Moon and planets by JPL's DE421 with ERFA.", positions(),
)  # fmt: skip
table(
    "frames", "(julianDay: Double, values: [Double])",
    "Ayanamsa, obliquity, sidereal time, mean and true node by the Swiss Ephemeris.", frames(),
)  # fmt: skip
table(
    "horizons",
    "(julianDay: Double, latitude: Double, longitude: Double, ascendant: Double, midheaven: Double)",
    "Ascendants and midheavens by the Swiss Ephemeris.", horizons(),
)  # fmt: skip
table(
    "times", "(date: String, time: String, zone: String, utc: String)",
    "Universal times by the time zone database of the IANA.", times(),
)  # fmt: skip
table(
    "ingresses", "(body: Body, year: Int, zodiac: Zodiac, entries: [(sign: Sign, julianDay: Double)])",
    "Entries into signs by DE421, those of the node by the Swiss Ephemeris.", ingresses(),
)  # fmt: skip
dasha, match = hora()
table(
    "dashas",
    "(moon: Double, periods: [(lord: Body, start: Double)], parts: [(lord: Body, start: Double)])",
    "Starts of the nine periods, and of the parts of the second one, by PyJHora.", dashas(dasha),
)  # fmt: skip
table(
    "matches", "(groom: Int, bride: Int, points: [Double])",
    "Points of two quarters of mansions by PyJHora: all comparisons but varna and tara.", matches(match),
)  # fmt: skip
print("}")
