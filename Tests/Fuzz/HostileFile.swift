/// Files that pretend to be images or videos, or that would take much memory or time.
package struct HostileFile: Sendable {
    /// A name for reports.
    package let name: String
    /// The content.
    package let bytes: [UInt8]
    /// The code of the refusal; `nil` if the file may be stored.
    package let code: String?

    private init(_ name: String, _ bytes: [UInt8], _ code: String?) {
        (self.name, self.bytes, self.code) = (name, bytes, code)
    }

    /// A text that no stored file may contain.
    package static let script = "<script>alert(1)</script>"

    /// Files that need no program to make.
    package static let all: [HostileFile] = types + images + boxes

    // MARK: - Other types

    private static let types = [
        ("empty", ""),
        ("SVG", "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>"),
        ("SVG in XML", "<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("HTML", "<!DOCTYPE html>\(script)"), ("GIF and script", "GIF89a/*\(script)*/"),
        ("PDF", "%PDF-1.7\n\(script)"), ("PostScript", "%!PS-Adobe-3.0 EPSF-3.0\n"),
        ("ImageMagick", "push graphic-context\nimage over 0,0 1,1 'msl:/etc/passwd'\n"),
        ("playlist", "#EXTM3U\nfile:///etc/passwd\n"), ("archive", "PK\u{3}\u{4}\u{14}"),
        ("TIFF", "II*\0\u{8}\0\0\0"), ("BMP", "BM\0\0\0\0"), ("icon", "\0\0\u{1}\0\u{1}\0"),
        ("AVI", "RIFF\0\0\0\0AVI LIST"), ("program", "\u{7F}ELF\u{2}\u{1}\u{1}"),
    ]
    .map { HostileFile($0.0, Array($0.1.utf8), "unsupported_media_type") }

    // MARK: - Images

    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    private static func header(_ width: UInt32, _ height: UInt32) -> [UInt8] {
        let size = big(width) + big(height)
        return signature + [0, 0, 0, 13] + Array("IHDR".utf8) + size + [8, 2, 0, 0, 0, 0, 0, 0, 0]
    }

    private static let images = [
        HostileFile("JPEG without content", [0xFF, 0xD8, 0xFF], "malformed_body"),
        HostileFile("JPEG and script", [0xFF, 0xD8, 0xFF, 0xFE] + script.utf8, "malformed_body"),
        HostileFile(
            "JPEG of fill bytes",
            [0xFF, 0xD8] + repeated(0xFF, 1 << 20),
            "malformed_body"
        ),
        HostileFile("PNG without content", signature, "malformed_body"),
        HostileFile("PNG and script", signature + Array(script.utf8), "malformed_body"),
        HostileFile("PNG of a JPEG", signature + [0xFF, 0xD8, 0xFF, 0xE0], "malformed_body"),
        HostileFile("PNG without pixels", header(0, 0), "malformed_body"),
        HostileFile("PNG of 4 billion pixels each way", header(.max, .max), "malformed_body"),
        HostileFile(
            "WebP of zeros",
            Array("RIFF\u{7F}\0\0\0WEBPVP8 ".utf8) + repeated(0, 4_096),
            "malformed_body"
        ),
        HostileFile(
            "WebP of a length beyond its end",
            Array("RIFF".utf8) + [0xFF, 0xFF, 0xFF, 0x7F] + Array("WEBPVP8L".utf8),
            "malformed_body"
        ),
    ]

    // MARK: - Boxes

    private static let boxes = [
        HostileFile("HEIC without content", box("ftyp", "heic\0\0\0\0heic"), "malformed_body"),
        HostileFile(
            "HEIC of nested boxes",
            box("ftyp", "heic\0\0\0\0heic") + nested("meta", "iprp", 4_000),
            "malformed_body"
        ),
        HostileFile(
            "MP4 of nested boxes",
            box("ftyp", "isom\0\0\0\0mp42") + nested("moov", "trak", 100_000),
            "malformed_body"
        ),
        HostileFile("MP4 without a movie", box("ftyp", "isom\0\0\0\0mp42"), "malformed_body"),
        HostileFile(
            "QuickTime of a length beyond its end",
            box("ftyp", "qt  \0\0\0\0qt  ") + [0, 0, 0, 1] + Array("moov".utf8)
                + repeated(0x7F, 8),
            "malformed_body"
        ),
        HostileFile(
            "WebM of unknown sizes",
            [0x1A, 0x45, 0xDF, 0xA3, 0x87, 0x42, 0x82, 0x84] + Array("webm".utf8)
                + (0..<1_000).flatMap { _ in [0x18, 0x53, 0x80, 0x67, 0xFF] as [UInt8] },
            "malformed_body"
        ),
    ]

    private static func big(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
    }

    private static func repeated(_ byte: UInt8, _ count: Int) -> [UInt8] {
        [UInt8](repeating: byte, count: count)
    }

    private static func box(_ type: String, _ content: String) -> [UInt8] {
        big(UInt32(content.utf8.count + 8)) + Array(type.utf8) + Array(content.utf8)
    }

    /// Returns boxes of which each is the only content of the one before it.
    private static func nested(_ outer: String, _ inner: String, _ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        for level in 0..<count {
            bytes += big(UInt32(8 * (count - level)))
            bytes += Array((level == 0 ? outer : inner).utf8)
        }
        return bytes
    }
}
