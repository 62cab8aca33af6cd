/// A type of image or video, detected by the first bytes of a file.
package enum MediaType: String, CaseIterable, Sendable {
    case jpeg = "image/jpeg"
    case png = "image/png"
    case gif = "image/gif"
    case webp = "image/webp"
    /// An image coded in HEVC.
    case heic = "image/heic"
    case avif = "image/avif"
    /// An image of the same file format in another coding.
    case heif = "image/heif"
    case mp4 = "video/mp4"
    case quickTime = "video/quicktime"
    case webm = "video/webm"

    /// Whether it is a still or moving image without sound.
    package var isImage: Bool { rawValue.hasPrefix("image/") }

    /// Detects the type; returns `nil` for any other one.
    package init?(of file: [UInt8]) {
        guard let type = Self.detect(file) else { return nil }
        self = type
    }

    static func detect(_ file: some FileBytes) -> MediaType? {
        if file.has([0xFF, 0xD8, 0xFF], at: 0) { return .jpeg }
        if file.has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], at: 0) { return .png }
        if file.has("GIF8", at: 0) { return .gif }
        if file.has("RIFF", at: 0), file.has("WEBP", at: 8) { return .webp }
        if file.has("ftyp", at: 4) { return brands(of: file) }
        return EBMLHeader.isWebM(file) ? .webm : nil
    }

    /// The brands of images coded in HEVC (ISO/IEC 23008-12, annex B).
    private static let heicBrands: Set = ["heic", "heix", "heim", "heis", "hevc", "hevx"]
    private static let avifBrands: Set = ["avif", "avis"]
    /// The common brands of MP4 files (ISO/IEC 14496-12, 14496-14, and Apple's).
    private static let mp4Brands: Set = [
        "isom", "iso2", "iso3", "iso4", "iso5", "iso6", "iso7", "iso8", "iso9", "mp41", "mp42",
        "avc1", "M4V ", "MSNV", "dash", "mmp4",
    ]
    /// The maximum number of brands that are read.
    private static let brandLimit = 64

    private static func brands(of file: some FileBytes) -> MediaType? {
        guard let box = file.boxes(in: 0..<file.count, limit: 1).first,
            let major = file.text(at: box.content.lowerBound)
        else { return nil }
        if heicBrands.contains(major) { return .heic }
        if avifBrands.contains(major) { return .avif }
        if major == "qt  " { return .quickTime }
        var brands: Set = [major]
        // The four bytes after the major brand are a version.
        for offset in stride(from: box.content.lowerBound + 8, to: box.content.upperBound, by: 4)
            .prefix(brandLimit)
        {
            if let brand = file.text(at: offset) { brands.insert(brand) }
        }
        let isImage = ["mif1", "msf1"].contains(major)
        if !isImage, !brands.isDisjoint(with: mp4Brands) { return .mp4 }
        if !brands.isDisjoint(with: heicBrands) { return .heic }
        if !brands.isDisjoint(with: avifBrands) { return .avif }
        return isImage ? .heif : nil
    }
}
