import Foundation

/// Functions of angles in degrees.
enum Angle {
    /// Returns the angle from 0 up to, but not including, 360 degrees.
    static func normalized(_ degrees: Double) -> Double {
        let rest = degrees.truncatingRemainder(dividingBy: 360)
        // The sum of a tiny negative angle and 360 is 360.
        let positive = rest < 0 ? rest + 360 : rest
        return positive < 360 ? positive : 0
    }

    /// Returns the shorter way from one angle to the other, from -180 up to 180 degrees.
    static func difference(from first: Double, to second: Double) -> Double {
        let difference = normalized(second - first)
        return difference > 180 ? difference - 360 : difference
    }

    static func sine(_ degrees: Double) -> Double { sin(degrees * .pi / 180) }
    static func cosine(_ degrees: Double) -> Double { cos(degrees * .pi / 180) }
    static func tangent(_ degrees: Double) -> Double { tan(degrees * .pi / 180) }

    /// Returns the direction of a point, from 0 up to 360 degrees.
    static func direction(x: Double, y: Double) -> Double {
        normalized(degrees(fromRadians: atan2(y, x)))
    }

    static func degrees(fromRadians radians: Double) -> Double { radians * 180 / .pi }

    /// Returns the polynomial's value: the coefficients of `x⁰`, `x¹`, and so on.
    static func polynomial(_ x: Double, _ coefficients: [Double]) -> Double {
        coefficients.reversed().reduce(0) { $0 * x + $1 }
    }
}
