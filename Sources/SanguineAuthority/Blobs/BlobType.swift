import SanguineModel

/// An accepted type of file, detected by the first bytes.
enum BlobType: String, CaseIterable {
    case jpeg = "image/jpeg"
    case png = "image/png"
    case webp = "image/webp"
    case heic = "image/heic"
    case mp4 = "video/mp4"
    case quickTime = "video/quicktime"
    case webm = "video/webm"

    /// Whether a decoder can scale it.
    var isImage: Bool { rawValue.hasPrefix("image/") }

    /// Detects the type; returns `nil` for a type that is not accepted.
    init?(of file: [UInt8]) {
        if file.starts(with: [0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if file.starts(with: PNGFile.signature) {
            self = .png
        } else if file.has("RIFF", at: 0), file.has("WEBP", at: 8) {
            self = .webp
        } else if file.has("ftyp", at: 4) {
            guard let type = Self(brandsOf: file) else { return nil }
            self = type
        } else if EBMLHeader.isWebM(file) {
            self = .webm
        } else {
            return nil
        }
    }

    /// The brands of images coded in HEVC (ISO/IEC 23008-12, annex B).
    private static let heicBrands: Set = ["heic", "heix", "heim", "heis", "hevc", "hevx"]
    /// The common brands of MP4 files (ISO/IEC 14496-12, 14496-14, and Apple's).
    private static let mp4Brands: Set = [
        "isom", "iso2", "iso3", "iso4", "iso5", "iso6", "iso7", "iso8", "iso9", "mp41", "mp42",
        "avc1", "M4V ", "MSNV", "dash", "mmp4",
    ]

    private init?(brandsOf file: [UInt8]) {
        guard let box = file.boxes(in: 0..<file.count, limit: 1).first,
            let major = file.text(at: box.content.lowerBound)
        else { return nil }
        var brands: Set = [major]
        // The four bytes after the major brand are a version.
        for offset in stride(from: box.content.lowerBound + 8, to: box.content.upperBound, by: 4)
            .prefix(64)
        {
            if let brand = file.text(at: offset) { brands.insert(brand) }
        }
        if Self.heicBrands.contains(major)
            || ["mif1", "msf1"].contains(major) && !brands.isDisjoint(with: Self.heicBrands)
        {
            self = .heic
        } else if major == "qt  " {
            self = .quickTime
        } else if !brands.isDisjoint(with: Self.mp4Brands), !["avif", "avis"].contains(major) {
            self = .mp4
        } else {
            return nil
        }
    }
}

/// The header of Matroska files, of which WebM is one kind (RFC 8794, section 11).
enum EBMLHeader {
    static func isWebM(_ file: [UInt8]) -> Bool {
        guard file.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) else { return false }
        guard let header = number(in: file, at: 4) else { return false }
        var offset = header.end
        let end = min(file.count, header.end + min(header.value, 4_096))
        while offset < end, let width = file.big(offset, 1).map(length), width <= 4,
            let name = file.big(offset, width), let size = number(in: file, at: offset + width)
        {
            guard size.value <= end - size.end else { return false }
            // DocType
            if name == 0x4282 { return size.value == 4 && file.has("webm", at: size.end) }
            offset = size.end + size.value
        }
        return false
    }

    /// The width of a number in bytes, by its first byte.
    static func length(_ first: Int) -> Int {
        UInt8(truncatingIfNeeded: first).leadingZeroBitCount + 1
    }

    private static func number(in file: [UInt8], at offset: Int) -> (value: Int, end: Int)? {
        guard let width = file.big(offset, 1).map(length), width <= 7,
            let number = file.big(offset, width)
        else { return nil }
        return (number & (1 << (7 * width) - 1), offset + width)
    }
}
