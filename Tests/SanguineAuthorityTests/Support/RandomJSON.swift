import SanguineModel
import SanguineTesting

extension JSONValue {
    /// Returns a random value of limited depth.
    static func any(_ random: inout SplitMix64, depth: Int = 0) -> JSONValue {
        switch Int.random(in: 0..<(depth < 4 ? 8 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(.random(using: &random))
        case 2: return .integer(.random(in: .min ... .max, using: &random))
        case 3: return .integer(.random(in: -1_000...1_000, using: &random))
        case 4:
            let number = Double(bitPattern: random.next())
            let isWhole = number.rounded() == number && number.magnitude < 1e19
            return number.isFinite && !isWhole ? .number(number) : .number(0.5)
        case 5: return .string(anyText(&random))
        case 6:
            let count = Int.random(in: 0...4, using: &random)
            return .array((0..<count).map { _ in any(&random, depth: depth + 1) })
        default:
            let count = Int.random(in: 0...4, using: &random)
            let members = (0..<count).map { _ in (anyText(&random), any(&random, depth: depth + 1))
            }
            return .object(Dictionary(members) { first, _ in first })
        }
    }

    static func anyText(_ random: inout SplitMix64) -> String {
        let scalars = (0..<Int.random(in: 0...6, using: &random)).compactMap { _ in
            let most: UInt32 = Bool.random(using: &random) ? 0x80 : 0x11_0000
            return UnicodeScalar(UInt32.random(in: 0..<most, using: &random))
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
