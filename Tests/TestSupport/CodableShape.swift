package import Foundation
package import SanguineTesting

/// A type that can be encoded and creates random values.
package protocol CodableShape: Codable, Equatable, Sendable {
    /// Returns a random value.
    static func random(_ random: inout SplitMix64) -> Self
}

/// A type that can be a key of a dictionary.
package protocol CodableShapeKey: CodableShape, Hashable {}

/// Creates random types: scalars, and containers of other random types.
package enum CodableShapes {
    /// Returns a type whose values have at most that nesting depth.
    package static func type(_ random: inout SplitMix64, depth: Int) -> any CodableShape.Type {
        let kinds = depth > 0 ? 12 : 3
        switch Int.random(in: 0..<kinds, using: &random) {
        case 0, 1, 2: return scalars[Int.random(in: scalars.indices, using: &random)]
        case 3, 4: return optional(type(&random, depth: depth - 1))
        case 5: return array(type(&random, depth: depth - 1))
        case 6, 7:
            let key = keys[Int.random(in: keys.indices, using: &random)]
            return dictionary(key, type(&random, depth: depth - 1))
        default:
            let kind = Int.random(in: 0..<5, using: &random)
            let first = type(&random, depth: depth - 1)
            return pair(first, type(&random, depth: depth - 1), kind)
        }
    }

    private static let scalars: [any CodableShape.Type] = [
        Bool.self, Int.self, Int8.self, Int64.self, UInt64.self, UInt16.self, Int128.self,
        UInt128.self, Double.self, Float.self, Decimal.self, String.self, Date.self, Data.self,
        URL.self, UUID.self, ShapeChoice.self,
    ]

    private static let keys: [any CodableShapeKey.Type] = [
        String.self, Int.self, ShapeChoice.self, UUID.self,
    ]

    private static func optional<T: CodableShape>(_ type: T.Type) -> any CodableShape.Type {
        T?.self
    }

    private static func array<T: CodableShape>(_ type: T.Type) -> any CodableShape.Type {
        [T].self
    }

    private static func dictionary<K: CodableShapeKey, T: CodableShape>(
        _ key: K.Type,
        _ type: T.Type
    ) -> any CodableShape.Type { [K: T].self }

    private static func pair<A: CodableShape, B: CodableShape>(
        _ first: A.Type,
        _ second: B.Type,
        _ kind: Int
    ) -> any CodableShape.Type {
        switch kind {
        case 0: ShapePair<A, B>.self
        case 1: ShapeEither<A, B>.self
        case 2: ShapeWrapper<A>.self
        case 3: ShapeChild<A, B>.self
        default: ShapeNest<A, B>.self
        }
    }

    fileprivate static func count(_ random: inout SplitMix64) -> Int {
        Int.random(in: 0...3, using: &random)
    }

    fileprivate static func text(_ random: inout SplitMix64) -> String {
        let letters =
            Array("ab\"\\/\n\t\u{1}é😀\u{7f}\u{2028}नि").map(String.init) + ["e\u{301}", "\0"]
        // One in several hundred is huge.
        let isHuge = Int.random(in: 0..<400, using: &random) == 0
        let count = isHuge ? 5_000 : Int.random(in: 0...8, using: &random)
        return (0..<count).map { _ in letters[Int.random(in: letters.indices, using: &random)] }
            .joined()
    }
}

/// Returns the smallest or largest values, or any other.
extension FixedWidthInteger where Self: Sendable {
    fileprivate static func edgy(_ random: inout SplitMix64) -> Self {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: .max
        case 1: .min
        case 2: 0
        case 3: .max - .random(in: 0...2, using: &random)
        case 4: Self(truncatingIfNeeded: Int.random(in: -300...300, using: &random))
        default: .random(in: .min ... .max, using: &random)
        }
    }
}

// MARK: - Scalars

extension Bool: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Bool { .random(using: &random) }
}

extension Int: CodableShapeKey {
    package static func random(_ random: inout SplitMix64) -> Int { edgy(&random) }
}

extension Int8: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Int8 { edgy(&random) }
}

extension Int64: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Int64 { edgy(&random) }
}

extension UInt16: CodableShape {
    package static func random(_ random: inout SplitMix64) -> UInt16 { edgy(&random) }
}

extension UInt64: CodableShape {
    package static func random(_ random: inout SplitMix64) -> UInt64 { edgy(&random) }
}

extension Int128: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Int128 { edgy(&random) }
}

extension UInt128: CodableShape {
    package static func random(_ random: inout SplitMix64) -> UInt128 { edgy(&random) }
}

extension Double: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Double {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return [0, -0.0, 0.1, 1e21, 0x1p63, 0x1p64].randomElement(using: &random) ?? 0
        case 1:
            return [.leastNonzeroMagnitude, .greatestFiniteMagnitude, .ulpOfOne].randomElement(
                using: &random
            ) ?? 0
        case 2: return Double(Int.random(in: -1_000_000...1_000_000, using: &random)) / 100
        default:
            let number = Double(bitPattern: random.next())
            return number.isFinite ? number : 1
        }
    }
}

extension Float: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Float {
        let number = Float(bitPattern: UInt32(truncatingIfNeeded: random.next()))
        return number.isFinite ? number : -0.0
    }
}

extension Decimal: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Decimal {
        let digits = Int.random(in: 1...38, using: &random)
        let text = (0..<digits).map { _ in String(Int.random(in: 0...9, using: &random)) }.joined()
        let exponent = Int.random(in: -60...60, using: &random)
        let sign = Bool.random(using: &random) ? "-" : ""
        return Decimal(string: "\(sign)\(text)e\(exponent)", locale: nil) ?? 0
    }
}

extension String: CodableShapeKey {
    package static func random(_ random: inout SplitMix64) -> String { CodableShapes.text(&random) }
}

extension Date: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Date {
        Date(timeIntervalSinceReferenceDate: .random(in: -1e10...1e10, using: &random))
    }
}

extension Data: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Data {
        Data(
            (0..<Int.random(in: 0...20, using: &random)).map { _ in
                .random(in: 0...255, using: &random)
            }
        )
    }
}

extension URL: CodableShape {
    package static func random(_ random: inout SplitMix64) -> URL {
        URL(string: "https://a.example/\(random.next())?b=%20&c=\(random.next())")
            ?? URL(filePath: "/")
    }
}

extension UUID: CodableShapeKey {
    package static func random(_ random: inout SplitMix64) -> UUID {
        func byte() -> UInt8 { .random(in: 0...255, using: &random) }
        return UUID(
            uuid: (
                byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(), byte(),
                byte(), byte(), byte(), byte(), byte(), byte()
            )
        )
    }
}

/// An enumeration with string values.
package enum ShapeChoice: String, CodableShapeKey, CaseIterable, CodingKeyRepresentable {
    case first
    case second = "é/\""
    case empty = ""

    package static func random(_ random: inout SplitMix64) -> ShapeChoice {
        allCases.randomElement(using: &random) ?? .first
    }
}

// MARK: - Containers

extension Optional: CodableShape where Wrapped: CodableShape {
    package static func random(_ random: inout SplitMix64) -> Wrapped? {
        Bool.random(using: &random) ? nil : Wrapped.random(&random)
    }
}

extension Array: CodableShape where Element: CodableShape {
    package static func random(_ random: inout SplitMix64) -> [Element] {
        (0..<CodableShapes.count(&random)).map { _ in Element.random(&random) }
    }
}

extension Dictionary: CodableShape where Key: CodableShapeKey, Value: CodableShape {
    package static func random(_ random: inout SplitMix64) -> [Key: Value] {
        var members: [Key: Value] = [:]
        for _ in 0..<CodableShapes.count(&random) {
            var key = Key.random(&random)
            // A name has at most 1,024 bytes.
            if let text = key as? String, let short = String(text.prefix(8)) as? Key { key = short }
            members[key] = Value.random(&random)
        }
        return members
    }
}

/// Two members.
package struct ShapePair<A: CodableShape, B: CodableShape>: CodableShape {
    var first: A
    var second: B?

    package static func random(_ random: inout SplitMix64) -> Self {
        Self(first: .random(&random), second: .random(&random))
    }
}

/// An enumeration with associated values.
package enum ShapeEither<A: CodableShape, B: CodableShape>: CodableShape {
    case none
    case first(A)
    case both(A, named: B?)

    package static func random(_ random: inout SplitMix64) -> Self {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: .none
        case 1: .first(.random(&random))
        default: .both(.random(&random), named: .random(&random))
        }
    }
}

/// A value that is encoded as its single member.
package struct ShapeWrapper<A: CodableShape>: CodableShape {
    var value: A

    package init(from decoder: any Decoder) throws {
        value = try decoder.singleValueContainer().decode(A.self)
    }

    private init(value: A) { self.value = value }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }

    package static func random(_ random: inout SplitMix64) -> Self { Self(value: .random(&random)) }
}

/// The encoding of a subclass: its own members and those of its superclass.
package struct ShapeChild<A: CodableShape, B: CodableShape>: CodableShape {
    var own: A
    var parent: B
    var named: B?

    private enum Keys: String, CodingKey { case own, named }

    private init(own: A, parent: B, named: B?) {
        (self.own, self.parent, self.named) = (own, parent, named)
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Keys.self)
        own = try container.decode(A.self, forKey: .own)
        parent = try B(from: container.superDecoder())
        named = try B?(from: container.superDecoder(forKey: .named))
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Keys.self)
        try container.encode(own, forKey: .own)
        try parent.encode(to: container.superEncoder())
        try named.encode(to: container.superEncoder(forKey: .named))
    }

    package static func random(_ random: inout SplitMix64) -> Self {
        Self(own: .random(&random), parent: .random(&random), named: .random(&random))
    }
}

/// Nested containers.
package struct ShapeNest<A: CodableShape, B: CodableShape>: CodableShape {
    var first: A
    var second: B?
    var third: [A?]

    private enum Keys: String, CodingKey { case inner, list, third }

    private init(first: A, second: B?, third: [A?]) {
        (self.first, self.second, self.third) = (first, second, third)
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Keys.self)
        let inner = try container.nestedContainer(keyedBy: Keys.self, forKey: .inner)
        first = try inner.decode(A.self, forKey: .inner)
        var list = try container.nestedUnkeyedContainer(forKey: .list)
        second = try list.decodeIfPresent(B.self)
        var deep = try list.nestedUnkeyedContainer()
        third = []
        while !deep.isAtEnd { third.append(try deep.decode(A?.self)) }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Keys.self)
        var inner = container.nestedContainer(keyedBy: Keys.self, forKey: .inner)
        try inner.encode(first, forKey: .inner)
        var list = container.nestedUnkeyedContainer(forKey: .list)
        try list.encode(second)
        var deep = list.nestedUnkeyedContainer()
        for element in third { try deep.encode(element) }
    }

    package static func random(_ random: inout SplitMix64) -> Self {
        let third = (0..<CodableShapes.count(&random)).map { _ in A?.random(&random) }
        return Self(first: .random(&random), second: .random(&random), third: third)
    }
}
