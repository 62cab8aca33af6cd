import SanguineVips

/// A format of images that is decoded.
package enum ImageFormat: String, CaseIterable, Sendable {
    case jpeg = "image/jpeg"
    case png = "image/png"
    case webp = "image/webp"
    case heic = "image/heic"

    var code: sanguine_format {
        switch self {
        case .jpeg: SANGUINE_JPEG
        case .png: SANGUINE_PNG
        case .webp: SANGUINE_WEBP
        case .heic: SANGUINE_HEIC
        }
    }

    init?(_ code: sanguine_format) {
        guard let format = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = format
    }
}
