package import SanguineTesting

/// Random changes of a file: of bytes and numbers, of its end, and of its parts.
package enum FileChange {
    /// Bytes at which readers of files decide differently.
    private static let extremes: [UInt8] = [0, 1, 0x7F, 0x80, 0xD8, 0xD9, 0xDA, 0xFE, 0xFF]

    /// Makes one change.
    package static func change(_ file: inout [UInt8], using random: inout SplitMix64) {
        guard !file.isEmpty else { return }
        // Most of what readers decide by is near the beginning.
        let isNear = Bool.random(using: &random)
        let range = 0..<(isNear ? min(file.count, 256) : file.count)
        let place = Int.random(in: range, using: &random)
        switch Int.random(in: 0..<9, using: &random) {
        case 0: file.removeLast(file.count - place)
        case 1: file[place] = .random(in: .min ... .max, using: &random)
        case 2: file[place] = extreme(&random)
        case 3: file.remove(at: place)
        case 4: file.insert(extreme(&random), at: place)
        case 5:
            // A number of four bytes, with extreme values.
            for offset in place..<min(place + 4, file.count) {
                file[offset] = Bool.random(using: &random) ? 0xFF : 0
            }
        case 6:
            let end = min(file.count, place + .random(in: 1...4_096, using: &random))
            file.insert(contentsOf: file[place..<end], at: place)
        case 7:
            // One bit.
            file[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        default:
            let end = min(file.count, place + .random(in: 0..<12, using: &random))
            file.removeSubrange(place..<end)
        }
    }

    private static func extreme(_ random: inout SplitMix64) -> UInt8 {
        extremes[.random(in: extremes.indices, using: &random)]
    }
}
