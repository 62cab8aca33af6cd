import Foundation

/// The longitude of the Moon as a sum of periodic terms.
///
/// The terms are those of Meeus, *Astronomical Algorithms*, 2nd edition, chapter 47: the greatest
/// of the theory ELP-2000/82 by Chapront-Touzé and Chapront. Meeus states an error of 10″.
enum MoonSeries {
    /// Returns the longitude in the mean equinox of the date, in degrees.
    ///
    /// The time is counted in Julian centuries of terrestrial time since 2000.
    static func longitude(at t: Double) -> Double {
        let mean = Angle.polynomial(
            t,
            [218.3164477, 481_267.88123421, -0.0015786, 1 / 538_841, -1 / 65_194_000]
        )
        let arguments = Arguments(at: t)
        // The Sun's anomaly enters with the eccentricity of the Earth's orbit, which shrinks.
        let eccentricity = Angle.polynomial(t, [1, -0.002516, -0.0000074])
        var sum = 0.0
        for index in stride(from: 0, to: terms.count, by: 5) {
            let sun = terms[index + 1]
            let angle =
                terms[index] * arguments.elongation + sun * arguments.sunAnomaly
                + terms[index + 2] * arguments.moonAnomaly + terms[index + 3] * arguments.latitude
            let factor = sun == 0 ? 1 : abs(sun) == 1 ? eccentricity : eccentricity * eccentricity
            sum += terms[index + 4] * factor * Angle.sine(angle)
        }
        let venus = 119.75 + 131.849 * t
        let jupiter = 53.09 + 479_264.290 * t
        sum += 3958 * Angle.sine(venus) + 1962 * Angle.sine(mean - arguments.latitude)
        sum += 318 * Angle.sine(jupiter)
        return Angle.normalized(mean + sum / 1_000_000)
    }

    /// Returns the longitude of the mean ascending node in the mean equinox of the date.
    static func meanNode(at t: Double) -> Double {
        Angle.normalized(
            Angle.polynomial(
                t,
                [125.0445479, -1934.1362891, 0.0020754, 1 / 467_441, -1 / 60_616_000]
            )
        )
    }

    /// Returns the longitude of the true ascending node in the mean equinox of the date.
    ///
    /// The five greatest terms are exact to 0.35°.
    static func trueNode(at t: Double) -> Double {
        let a = Arguments(at: t)
        return Angle.normalized(
            meanNode(at: t) - 1.4979 * Angle.sine(2 * (a.elongation - a.latitude))
                - 0.1500 * Angle.sine(a.sunAnomaly) - 0.1226 * Angle.sine(2 * a.elongation)
                + 0.1176 * Angle.sine(2 * a.latitude)
                - 0.0801 * Angle.sine(2 * (a.moonAnomaly - a.latitude))
        )
    }

    /// The fundamental arguments, in degrees.
    private struct Arguments {
        /// The Moon's mean elongation from the Sun, `D`.
        let elongation: Double
        /// The Sun's mean anomaly, `M`.
        let sunAnomaly: Double
        /// The Moon's mean anomaly, `M′`.
        let moonAnomaly: Double
        /// The Moon's mean distance from its ascending node, `F`.
        let latitude: Double

        init(at t: Double) {
            elongation = Angle.polynomial(
                t,
                [297.8501921, 445_267.1114034, -0.0018819, 1 / 545_868, -1 / 113_065_000]
            )
            sunAnomaly = Angle.polynomial(
                t,
                [357.5291092, 35_999.0502909, -0.0001536, 1 / 24_490_000]
            )
            moonAnomaly = Angle.polynomial(
                t,
                [134.9633964, 477_198.8675055, 0.0087414, 1 / 69_699, -1 / 14_712_000]
            )
            latitude = Angle.polynomial(
                t,
                [93.2720950, 483_202.0175233, -0.0036539, -1 / 3_526_000, 1 / 863_310_000]
            )
        }
    }

    /// The multiples of `D`, `M`, `M′` and `F`, and the amplitude in millionths of a degree.
    private static let terms: [Double] = [
        0, 0, 1, 0, 6_288_774, 2, 0, -1, 0, 1_274_027, 2, 0, 0, 0, 658_314, 0, 0, 2, 0, 213_618,
        0, 1, 0, 0, -185_116, 0, 0, 0, 2, -114_332, 2, 0, -2, 0, 58_793, 2, -1, -1, 0, 57_066,
        2, 0, 1, 0, 53_322, 2, -1, 0, 0, 45_758, 0, 1, -1, 0, -40_923, 1, 0, 0, 0, -34_720,
        0, 1, 1, 0, -30_383, 2, 0, 0, -2, 15_327, 0, 0, 1, 2, -12_528, 0, 0, 1, -2, 10_980,
        4, 0, -1, 0, 10_675, 0, 0, 3, 0, 10_034, 4, 0, -2, 0, 8548, 2, 1, -1, 0, -7888,
        2, 1, 0, 0, -6766, 1, 0, -1, 0, -5163, 1, 1, 0, 0, 4987, 2, -1, 1, 0, 4036,
        2, 0, 2, 0, 3994, 4, 0, 0, 0, 3861, 2, 0, -3, 0, 3665, 0, 1, -2, 0, -2689,
        2, 0, -1, 2, -2602, 2, -1, -2, 0, 2390, 1, 0, 1, 0, -2348, 2, -2, 0, 0, 2236,
        0, 1, 2, 0, -2120, 0, 2, 0, 0, -2069, 2, -2, -1, 0, 2048, 2, 0, 1, -2, -1773,
        2, 0, 0, 2, -1595, 4, -1, -1, 0, 1215, 0, 0, 2, 2, -1110, 3, 0, -1, 0, -892,
        2, 1, 1, 0, -810, 4, -1, -2, 0, 759, 0, 2, -1, 0, -713, 2, 2, -1, 0, -700,
        2, 1, -2, 0, 691, 2, -1, 0, -2, 596, 4, 0, 1, 0, 549, 0, 0, 4, 0, 537, 4, -1, 0, 0, 520,
        1, 0, -2, 0, -487, 2, 1, 0, -2, -399, 0, 0, 2, -2, -381, 1, 1, 1, 0, 351,
        3, 0, -2, 0, -340, 4, 0, -3, 0, 330, 2, -1, 2, 0, 327, 0, 2, 1, 0, -323, 1, 1, -1, 0, 299,
        2, 0, 3, 0, 294,
    ]
}
