/// HEIC (ISO/IEC 23008-12), which lists its items and properties in one `meta` box.
enum HEICFile {
    /// Returns the image with its metadata overwritten, or `nil` if the file cannot be read.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        guard let (top, end) = file.topBoxes(),
            let meta = top.first(where: { $0.type == "meta" }), meta.content.count >= 4,
            // The content starts with a version and flags.
            let parts = file.children(in: meta.content.dropFirst(4)),
            // Of two equal boxes, each reader may use a different one.
            needed.allSatisfy({ name in parts.count { $0.type == name } <= 1 }),
            let size = size(parts, of: file),
            let descriptions = descriptions(parts, of: file)
        else { return nil }
        var bytes = file
        if !descriptions.isEmpty {
            guard let places = ItemPlaces(of: descriptions, parts, file)?.ranges else { return nil }
            for place in places { bytes.forget(place) }
        }
        for box in parts where !needed.contains(box.type) { bytes.free(box) }
        bytes.wipe(
            (parts.last?.content.upperBound ?? meta.content.upperBound)..<meta.content.upperBound
        )
        for box in properties(parts, of: file)
        where ["udes", "uuid"].contains(box.type) || FileBox.padding.contains(box.type) {
            bytes.free(box)
        }
        for box in top {
            if !FileBox.top.contains(box.type) || box.type == "meta" && box.start != meta.start {
                bytes.free(box)
            } else if FileBox.padding.contains(box.type) {
                bytes.wipe(box.content)
            } else if box.type == "moov" {
                guard VideoFile.cleanMovie(box, of: &bytes) else { return nil }
            }
        }
        bytes.removeSubrange(end...)
        return CleanedFile(bytes: bytes, size: size)
    }

    /// The boxes that readers need to find an image.
    private static let needed: Set = [
        "hdlr", "pitm", "iinf", "iloc", "iprp", "iref", "idat", "dinf", "ipro", "grpl",
    ]

    private static func properties(_ meta: [FileBox], of file: [UInt8]) -> [FileBox] {
        guard let properties = meta.first(where: { $0.type == "iprp" }),
            let all = file.boxes(in: properties.content).first(where: { $0.type == "ipco" })
        else { return [] }
        return file.children(in: all.content) ?? []
    }

    /// Returns the size of the largest image; for tiles, this is the composed image.
    private static func size(_ meta: [FileBox], of file: [UInt8]) -> PixelSize? {
        properties(meta, of: file).filter { $0.type == "ispe" }
            .compactMap { box in
                let start = box.content.lowerBound + 4
                guard box.content.count >= 12 else { return nil }
                return PixelSize(file.big(start, 4), file.big(start + 4, 4))
            }
            .max { $0.pixels < $1.pixels }
    }

    /// The types of items that are images or describe how images are composed.
    private static let pictures: Set = [
        "hvc1", "hev1", "hvt1", "lhv1", "lhe1", "grid", "iovl", "iden", "tmap", "jpeg", "av01",
        "avc1",
    ]

    /// Returns the ids of the items that are not images, such as Exif and XMP; `nil` if an item has
    /// no readable type.
    private static func descriptions(_ meta: [FileBox], of file: [UInt8]) -> Set<Int>? {
        guard let box = meta.first(where: { $0.type == "iinf" }),
            let version = file.big(box.content.lowerBound, 1)
        else { return [] }
        let entries = box.content.dropFirst(version == 0 ? 6 : 8)
        var ids: Set<Int> = []
        guard let entries = file.children(in: entries) else { return nil }
        for entry in entries where entry.type == "infe" {
            let start = entry.content.lowerBound
            guard let version = file.big(start, 1), version >= 2 else { return nil }
            let width = version == 2 ? 2 : 4
            guard entry.content.count >= 4 + width + 6, let id = file.big(start + 4, width),
                let type = file.text(at: start + 4 + width + 2)
            else { return nil }
            if !pictures.contains(type) { ids.insert(id) }
        }
        return ids
    }
}

/// The byte ranges of some items in a HEIC file (ISO/IEC 14496-12, section 8.11.3).
private struct ItemPlaces {
    /// The maximum number of extents that are read, of all items: 10,000.
    private static let limit = 10_000

    private(set) var ranges: [Range<Int>] = []

    private let file: [UInt8]
    private var offset: Int
    private let end: Int
    /// The extents and bytes that the file may still name.
    private var rest = (parts: Self.limit, bytes: 0)

    /// Returns `nil` if the ranges cannot be read.
    init?(of items: Set<Int>, _ meta: [FileBox], _ file: [UInt8]) {
        guard let box = meta.first(where: { $0.type == "iloc" }) else { return nil }
        self.file = file
        offset = box.content.lowerBound
        end = box.content.upperBound
        rest.bytes = file.count
        let data = meta.first { $0.type == "idat" }?.content
        guard let head = number(4), let widths = number(2) else { return nil }
        let version = head >> 24
        let nibbles = [12, 8, 4, 0].map { widths >> $0 & 15 }
        guard nibbles.allSatisfy({ [0, 4, 8].contains($0) }),
            let count = number(version < 2 ? 2 : 4)
        else { return nil }
        let index = version == 0 ? 0 : nibbles[3]
        for _ in 0..<count {
            guard let id = number(version < 2 ? 2 : 4),
                let method = version == 0 ? 0 : number(2).map({ $0 & 15 }),
                number(2) != nil, let base = number(nibbles[2]), let parts = number(2)
            else { return nil }
            for _ in 0..<parts {
                rest.parts -= 1
                guard rest.parts > 0, number(index) != nil, let start = number(nibbles[0]),
                    let length = number(nibbles[1])
                else { return nil }
                guard items.contains(id), length > 0 else { continue }
                let whole = method == 0 ? 0..<file.count : method == 1 ? data : nil
                guard let whole, add(base, start, length, in: whole) else { return nil }
            }
        }
    }

    private mutating func add(
        _ base: Int,
        _ start: Int,
        _ length: Int,
        in whole: Range<Int>
    ) -> Bool {
        let limit = whole.count
        // The sum of all lengths is limited, so overlapping extents cannot cost unbounded time.
        guard length <= limit, length <= rest.bytes, base <= limit, start <= limit - base,
            length <= limit - base - start
        else { return false }
        rest.bytes -= length
        let first = whole.lowerBound + base + start
        ranges.append(first..<first + length)
        return true
    }

    /// Reads the next number of `width` bytes; a width of 0 reads 0.
    private mutating func number(_ width: Int) -> Int? {
        guard width > 0 else { return 0 }
        guard offset <= end - width, let number = file.big(offset, width) else { return nil }
        offset += width
        return number
    }
}

extension [UInt8] {
    /// Overwrites an item with an Exif structure without entries, or with zeros if it is too short.
    fileprivate mutating func forget(_ range: Range<Int>) {
        wipe(range)
        // The structure follows its offset, which is zero.
        let empty = [0, 0, 0, 0] + Array("MM".utf8) + 42.big(2) + 8.big(4)
        guard range.count >= empty.count + 6 else { return }
        replaceSubrange(range.prefix(empty.count), with: empty)
    }
}
