import SanguineTesting

/// A file to upload, which follows from a seed and the number of the case.
package struct UploadCase: Sendable {
    /// The content.
    package let bytes: [UInt8]
    /// The name of the file from which it was made, and the kind of change.
    package let name: String

    /// Makes a file.
    ///
    /// - Parameters:
    ///   - number: The number of the case.
    ///   - seed: The seed of all cases.
    ///   - files: Names and contents of real files, at least one.
    package init(_ number: Int, seed: UInt64, from files: [(name: String, bytes: [UInt8])]) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
        var (name, bytes) = files[.random(in: files.indices, using: &random)]
        switch Int.random(in: 0..<20, using: &random) {
        case 0: name += ", whole"
        case 1: (name, bytes) = Self.hostile(&random)
        case 2:
            let other = files[.random(in: files.indices, using: &random)]
            bytes = Array(bytes.prefix(Self.part(bytes, &random))) + other.bytes
            name += ", then \(other.name)"
        case 3...6:
            bytes = Array(bytes.prefix(Self.part(bytes, &random)))
            name += ", truncated"
        default:
            for _ in 0...Int.random(in: 0..<6, using: &random) {
                FileChange.change(&bytes, using: &random)
            }
            name += ", changed"
        }
        (self.name, self.bytes) = (name, bytes)
    }

    private static func part(_ bytes: [UInt8], _ random: inout SplitMix64) -> Int {
        .random(in: 0...bytes.count, using: &random)
    }

    private static func hostile(_ random: inout SplitMix64) -> (String, [UInt8]) {
        let all = HostileFile.all
        let file = all[.random(in: all.indices, using: &random)]
        var bytes = file.bytes
        if Bool.random(using: &random) { FileChange.change(&bytes, using: &random) }
        return (file.name, bytes)
    }
}
