import Foundation

/// Computes the bytes of a ``ThumbHash``.
struct ThumbHashEncoder {
    private struct Channel {
        var constant = 0.0
        var coefficients: [Double] = []
        var scale = 0.0
    }

    private let width: Int
    private let height: Int
    private let hasAlpha: Bool
    private var luminance: [Double] = []
    private var yellowBlue: [Double] = []
    private var redGreen: [Double] = []
    private var alpha: [Double] = []

    /// Converts the pixels to channels; transparent ones are composed over the average color.
    init(width: Int, height: Int, rgba: [UInt8]) {
        (self.width, self.height) = (width, height)
        let count = width * height
        var (sumRed, sumGreen, sumBlue, sumAlpha) = (0.0, 0.0, 0.0, 0.0)
        for index in 0..<count {
            let opacity = Double(rgba[index * 4 + 3]) / 255
            let weight = opacity / 255
            sumRed += weight * Double(rgba[index * 4])
            sumGreen += weight * Double(rgba[index * 4 + 1])
            sumBlue += weight * Double(rgba[index * 4 + 2])
            sumAlpha += opacity
        }
        if sumAlpha > 0 {
            sumRed /= sumAlpha
            sumGreen /= sumAlpha
            sumBlue /= sumAlpha
        }
        hasAlpha = sumAlpha < Double(count)
        for index in 0..<count {
            let opacity = Double(rgba[index * 4 + 3]) / 255
            let weight = opacity / 255
            let red = sumRed * (1 - opacity) + weight * Double(rgba[index * 4])
            let green = sumGreen * (1 - opacity) + weight * Double(rgba[index * 4 + 1])
            let blue = sumBlue * (1 - opacity) + weight * Double(rgba[index * 4 + 2])
            luminance.append((red + green + blue) / 3)
            yellowBlue.append((red + green) / 2 - blue)
            redGreen.append(red - green)
            alpha.append(opacity)
        }
    }

    /// The bytes of the placeholder.
    var bytes: [UInt8] {
        let limit = Double(hasAlpha ? 5 : 7)
        let longest = Double(max(width, height))
        let columns = max(1, Self.rounded(limit * Double(width) / longest))
        let rows = max(1, Self.rounded(limit * Double(height) / longest))
        let light = transform(luminance, max(3, columns), max(3, rows))
        let (yellow, red) = (transform(yellowBlue, 3, 3), transform(redGreen, 3, 3))
        let isLandscape = width > height
        var first = Self.rounded(63 * light.constant)
        first |= Self.rounded(31.5 + 31.5 * yellow.constant) << 6
        first |= Self.rounded(31.5 + 31.5 * red.constant) << 12
        first |= Self.rounded(31 * light.scale) << 18
        first |= (hasAlpha ? 1 : 0) << 23
        var second = isLandscape ? rows : columns
        second |= Self.rounded(63 * yellow.scale) << 3
        second |= Self.rounded(63 * red.scale) << 9
        second |= (isLandscape ? 1 : 0) << 15
        var hash = [first, first >> 8, first >> 16, second, second >> 8]
            .map { UInt8(truncatingIfNeeded: $0) }
        var channels = [light, yellow, red]
        if hasAlpha {
            let opacity = transform(alpha, 5, 5)
            let constants =
                Self.rounded(15 * opacity.constant) | Self.rounded(15 * opacity.scale) << 4
            hash.append(UInt8(truncatingIfNeeded: constants))
            channels.append(opacity)
        }
        var isHigh = false
        for coefficient in channels.flatMap(\.coefficients) {
            let value = UInt8(Self.rounded(15 * coefficient))
            if isHigh { hash[hash.count - 1] |= value << 4 } else { hash.append(value) }
            isHigh.toggle()
        }
        return hash
    }

    /// Returns the cosine transform of a channel; the coefficients are between 0 and 1.
    private func transform(_ values: [Double], _ countX: Int, _ countY: Int) -> Channel {
        var channel = Channel()
        let count = Double(width * height)
        for (x, y) in [(0, 0)] + ThumbHashLayout.frequencies(countX, countY) {
            let factorsX = Self.cosines(of: x, width)
            let factorsY = Self.cosines(of: y, height)
            var sum = 0.0
            for row in 0..<height {
                for column in 0..<width {
                    sum += values[column + row * width] * factorsX[column] * factorsY[row]
                }
            }
            sum /= count
            guard (x, y) != (0, 0) else {
                channel.constant = sum
                continue
            }
            channel.coefficients.append(sum)
            channel.scale = max(channel.scale, abs(sum))
        }
        if channel.scale > 0 {
            let factor = 0.5 / channel.scale
            channel.coefficients = channel.coefficients.map { 0.5 + factor * $0 }
        }
        return channel
    }

    static func cosines(of frequency: Int, _ count: Int) -> [Double] {
        (0..<count).map { cos(Double.pi / Double(count) * Double(frequency) * (Double($0) + 0.5)) }
    }

    private static func rounded(_ value: Double) -> Int { Int(value.rounded()) }
}

/// Reads the bytes of a ``ThumbHash``, which fit the layout.
struct ThumbHashDecoder {
    private struct Term {
        let x: Int
        let y: Int
        let value: Double
    }

    private let layout: ThumbHashLayout
    private let luminance: (constant: Double, terms: [Term])
    private let yellowBlue: (constant: Double, terms: [Term])
    private let redGreen: (constant: Double, terms: [Term])
    private let alpha: (constant: Double, terms: [Term])

    init(_ bytes: [UInt8], _ layout: ThumbHashLayout) {
        self.layout = layout
        let first = Int(bytes[0]) | Int(bytes[1]) << 8 | Int(bytes[2]) << 16
        let second = Int(bytes[3]) | Int(bytes[4]) << 8
        var nibbles = bytes[layout.start...].flatMap { [Int($0 & 15), Int($0 >> 4)] }[...]
        func terms(_ count: (x: Int, y: Int), _ scale: Double) -> [Term] {
            ThumbHashLayout.frequencies(count.x, count.y).map { x, y in
                let value = (Double(nibbles.popFirst() ?? 0) / 7.5 - 1) * scale
                // All frequencies but the constant one count twice in the inverse transform.
                return Term(x: x, y: y, value: 2 * value)
            }
        }
        let lightScale = Double(first >> 18 & 31) / 31
        luminance = (Double(first & 63) / 63, terms(layout.luminance, lightScale))
        // A quarter more saturation makes up for the quantization.
        let yellowScale = Double(second >> 3 & 63) / 63 * 1.25
        yellowBlue = (Double(first >> 6 & 63) / 31.5 - 1, terms((3, 3), yellowScale))
        let redScale = Double(second >> 9 & 63) / 63 * 1.25
        redGreen = (Double(first >> 12 & 63) / 31.5 - 1, terms((3, 3), redScale))
        guard layout.hasAlpha else {
            alpha = (1, [])
            return
        }
        let opacityScale = Double(bytes[5] >> 4) / 15
        alpha = (Double(bytes[5] & 15) / 15, terms((5, 5), opacityScale))
    }

    var averageColor: ThumbHash.Color {
        let (red, green, blue) = Self.rgb(
            luminance.constant,
            yellowBlue.constant,
            redGreen.constant
        )
        return ThumbHash.Color(
            red: min(1, max(0, red)),
            green: min(1, max(0, green)),
            blue: min(1, max(0, blue)),
            opacity: alpha.constant
        )
    }

    func pixels() -> ThumbHash.Pixels {
        let ratio = Double(layout.columns) / Double(layout.rows)
        let width = Int((ratio > 1 ? 32 : 32 * ratio).rounded())
        let height = Int((ratio > 1 ? 32 / ratio : 32).rounded())
        let factorsX = (0..<7).map { ThumbHashEncoder.cosines(of: $0, width) }
        let factorsY = (0..<7).map { ThumbHashEncoder.cosines(of: $0, height) }
        var rgba: [UInt8] = []
        rgba.reserveCapacity(width * height * 4)
        for row in 0..<height {
            for column in 0..<width {
                func value(_ channel: (constant: Double, terms: [Term])) -> Double {
                    channel.terms.reduce(channel.constant) { sum, term in
                        sum + term.value * factorsX[term.x][column] * factorsY[term.y][row]
                    }
                }
                let (red, green, blue) = Self.rgb(
                    value(luminance),
                    value(yellowBlue),
                    value(redGreen)
                )
                for part in [red, green, blue, value(alpha)] {
                    rgba.append(UInt8(max(0, 255 * min(1, part))))
                }
            }
        }
        return ThumbHash.Pixels(width: width, height: height, rgba: rgba)
    }

    private static func rgb(
        _ luminance: Double,
        _ yellowBlue: Double,
        _ redGreen: Double
    ) -> (red: Double, green: Double, blue: Double) {
        let blue = luminance - 2.0 / 3 * yellowBlue
        let red = (3 * luminance - blue + redGreen) / 2
        return (red, red - redGreen, blue)
    }
}
