//! Tables in Parquet.
//!
//! Source: the format's specification and `parquet.thrift`, <https://parquet.apache.org/docs/file-format/>. The metadata
//! is in Thrift's compact protocol.

use std::io::{self, Write};

use regatta_model::table::{Column, Kind, Value};

use super::rows::RowWriter;

/// First and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// Number of values of a row group. It bounds the memory, whatever the number of rows.
const VALUES_PER_GROUP: usize = 1 << 20;

/// Encodings: values one after another, and levels in runs.
const PLAIN: i64 = 0;
const RLE: i64 = 3;

/// Compression of every page, which every reader knows.
const SNAPPY: i64 = 1;

/// Writer of a table in Parquet: flat columns with one page for each row group.
pub(super) struct ParquetTable<W: Write> {
    out: W,
    written_bytes: u64,
    table: String,
    metadata: Vec<(String, String)>,
    columns: Vec<ColumnBuffer>,
    rows_per_group: usize,
    /// Rows of the present row group.
    rows: usize,
    all_rows: usize,
    /// Row groups that are written.
    groups: Vec<Struct>,
}

impl<W: Write> ParquetTable<W> {
    /// Writes the beginning of a file. `metadata` are keys and values about the table.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn new(
        out: W,
        table: &str,
        columns: &[Column],
        metadata: &[(&str, String)],
    ) -> io::Result<Self> {
        let owned = |(key, value): &(&str, String)| ((*key).to_owned(), value.clone());
        let mut file = Self {
            out,
            written_bytes: 0,
            table: table.to_owned(),
            metadata: metadata.iter().map(owned).collect(),
            columns: columns.iter().map(ColumnBuffer::new).collect(),
            rows_per_group: (VALUES_PER_GROUP / columns.len().max(1)).max(1),
            rows: 0,
            all_rows: 0,
            groups: Vec::new(),
        };
        file.append(MAGIC)?;
        Ok(file)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.all_rows += rows;
        let mut columns = std::mem::take(&mut self.columns);
        let mut chunks = Vec::new();
        let mut group_bytes = 0;
        for column in &mut columns {
            let offset = self.written_bytes;
            let page = column.take_page();
            let compressed = snap::raw::Encoder::new()
                .compress_vec(&page)
                .map_err(io::Error::other)?;
            let header = page_header(rows, page.len(), compressed.len()).bytes();
            self.append(&header)?;
            self.append(&compressed)?;
            let uncompressed_bytes = header.len() + page.len();
            group_bytes += uncompressed_bytes;
            let mut values = Struct::default();
            values
                .integer(1, column.physical_type())
                .list(2, INTEGER, [PLAIN, RLE].map(zigzag))
                .list(3, BINARY, [binary(&column.name)])
                .integer(4, SNAPPY)
                .long(5, rows as u64)
                .long(6, uncompressed_bytes as u64)
                .long(7, self.written_bytes - offset)
                .long(9, offset);
            let mut chunk = Struct::default();
            chunk.long(2, offset).structure(3, values);
            chunks.push(chunk.bytes());
        }
        self.columns = columns;
        let mut group = Struct::default();
        group
            .list(1, STRUCT, chunks)
            .long(2, group_bytes as u64)
            .long(3, rows as u64);
        self.groups.push(group);
        Ok(())
    }

    /// Returns the metadata of the whole file.
    fn file_metadata(&mut self) -> Struct {
        let mut root = Struct::default();
        root.binary(4, &self.table)
            .integer(5, self.columns.len() as i64);
        let schema = std::iter::once(root).chain(self.columns.iter().map(ColumnBuffer::schema));
        let pairs = self.metadata.iter().map(|(key, value)| {
            let mut pair = Struct::default();
            pair.binary(1, key).binary(2, value);
            pair.bytes()
        });
        let groups = std::mem::take(&mut self.groups);
        let mut file = Struct::default();
        file.integer(1, 1)
            .list(2, STRUCT, schema.map(Struct::bytes))
            .long(3, self.all_rows as u64)
            .list(4, STRUCT, groups.into_iter().map(Struct::bytes))
            .list(5, STRUCT, pairs)
            .binary(6, concat!("regatta ", env!("CARGO_PKG_VERSION")));
        file
    }
}

impl<W: Write> RowWriter for ParquetTable<W> {
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.add(*value)?;
        }
        self.rows += 1;
        if self.rows == self.rows_per_group {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let metadata = self.file_metadata().bytes();
        let length = u32::try_from(metadata.len()).map_err(io::Error::other)?;
        self.append(&metadata)?;
        self.append(&length.to_le_bytes())?;
        self.append(MAGIC)?;
        self.out.flush()
    }
}

fn page_header(rows: usize, bytes: usize, compressed_bytes: usize) -> Struct {
    let mut data = Struct::default();
    data.integer(1, rows as i64)
        .integer(2, PLAIN)
        .integer(3, RLE)
        .integer(4, RLE);
    let mut header = Struct::default();
    header
        .integer(1, 0)
        .integer(2, bytes as i64)
        .integer(3, compressed_bytes as i64)
        .structure(5, data);
    header
}

/// Values of one column in the present row group.
struct ColumnBuffer {
    name: String,
    kind: Kind,
    /// Encoded values; booleans take a byte each.
    values: Vec<u8>,
    /// Whether each row has a value; `None` for a column that never lacks one.
    is_present: Option<Vec<bool>>,
}

impl ColumnBuffer {
    fn new(column: &Column) -> Self {
        Self {
            name: column.name.to_string(),
            kind: column.kind,
            values: Vec::new(),
            is_present: column.nullable.then(Vec::new),
        }
    }

    /// Returns the number of the stored type.
    const fn physical_type(&self) -> i64 {
        match self.kind {
            Kind::Boolean => 0,
            Kind::Integer | Kind::Unsigned => 2,
            Kind::Single => 4,
            Kind::Real => 5,
            Kind::Text | Kind::Bytes => 6,
        }
    }

    /// Returns the element of the file's schema. Older readers know the converted type only.
    fn schema(&self) -> Struct {
        let mut element = Struct::default();
        element
            .integer(1, self.physical_type())
            .integer(3, i64::from(self.is_present.is_some()))
            .binary(4, &self.name);
        let mut logical = Struct::default();
        match self.kind {
            Kind::Text => {
                logical.structure(1, Struct::default());
                element.integer(6, 0).structure(10, logical);
            }
            Kind::Unsigned => {
                let mut unsigned = Struct::default();
                unsigned.byte(1, 64).boolean(2, false);
                logical.structure(10, unsigned);
                element.integer(6, 14).structure(10, logical);
            }
            Kind::Integer | Kind::Real | Kind::Single | Kind::Boolean | Kind::Bytes => {}
        }
        element
    }

    fn add(&mut self, value: Value<'_>) -> io::Result<()> {
        match (self.kind, value) {
            (_, Value::Null) if self.is_present.is_some() => {}
            (Kind::Integer | Kind::Unsigned, Value::Integer(value)) => {
                self.values.extend(value.to_le_bytes());
            }
            (Kind::Integer | Kind::Unsigned, Value::Unsigned(value)) => {
                self.values.extend(value.to_le_bytes());
            }
            (Kind::Real, Value::Real(value)) => self.values.extend(value.to_le_bytes()),
            (Kind::Single, Value::Single(value)) => self.values.extend(value.to_le_bytes()),
            (Kind::Boolean, Value::Boolean(value)) => self.values.push(u8::from(value)),
            (Kind::Text, Value::Text(text)) => {
                let length = u32::try_from(text.len()).map_err(io::Error::other)?;
                self.values.extend(length.to_le_bytes());
                self.values.extend(text.as_bytes());
            }
            _ => {
                return Err(io::Error::other(
                    "a value of another type than that of its column",
                ));
            }
        }
        if let Some(is_present) = &mut self.is_present {
            is_present.push(value != Value::Null);
        }
        Ok(())
    }

    /// Returns the page of the row group, not compressed, and begins again without values.
    fn take_page(&mut self) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.values.len() + 16);
        if let Some(is_present) = &mut self.is_present {
            // One run of levels of one bit each.
            let bits = packed_bits(is_present.iter().copied());
            let mut levels = varint((bits.len() as u64) << 1 | 1);
            levels.extend(bits);
            page.extend((levels.len() as u32).to_le_bytes());
            page.extend(levels);
            is_present.clear();
        }
        match self.kind {
            Kind::Boolean => page.extend(packed_bits(self.values.iter().map(|value| *value == 1))),
            _ => page.extend(&self.values),
        }
        self.values.clear();
        page
    }
}

/// Packs bits into bytes, from the lowest bit of each byte on.
fn packed_bits(bits: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (position, bit) in bits.enumerate() {
        if position % 8 == 0 {
            bytes.push(0);
        }
        if let Some(last) = bytes.last_mut() {
            *last |= u8::from(bit) << (position % 8);
        }
    }
    bytes
}

/// Types of Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INTEGER: u8 = 5;
const LONG: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Structure in Thrift's compact protocol. Fields are added in the order of their numbers.
#[derive(Default)]
struct Struct {
    bytes: Vec<u8>,
    last_field: u8,
}

impl Struct {
    fn field(&mut self, field: u8, kind: u8) -> &mut Self {
        debug_assert!(self.last_field < field && field - self.last_field < 16);
        self.bytes.push((field - self.last_field) << 4 | kind);
        self.last_field = field;
        self
    }

    fn value(&mut self, field: u8, kind: u8, value: Vec<u8>) -> &mut Self {
        self.field(field, kind).bytes.extend(value);
        self
    }

    fn boolean(&mut self, field: u8, value: bool) -> &mut Self {
        self.field(field, if value { TRUE } else { FALSE })
    }

    fn byte(&mut self, field: u8, value: u8) -> &mut Self {
        self.value(field, BYTE, vec![value])
    }

    fn integer(&mut self, field: u8, value: i64) -> &mut Self {
        self.value(field, INTEGER, zigzag(value))
    }

    fn long(&mut self, field: u8, value: u64) -> &mut Self {
        self.value(field, LONG, zigzag(value.cast_signed()))
    }

    fn binary(&mut self, field: u8, text: &str) -> &mut Self {
        self.value(field, BINARY, binary(text))
    }

    fn structure(&mut self, field: u8, value: Self) -> &mut Self {
        self.value(field, STRUCT, value.bytes())
    }

    /// Adds a list of encoded elements.
    fn list(
        &mut self,
        field: u8,
        kind: u8,
        elements: impl IntoIterator<Item = Vec<u8>>,
    ) -> &mut Self {
        let elements: Vec<Vec<u8>> = elements.into_iter().collect();
        self.field(field, LIST);
        match u8::try_from(elements.len()) {
            Ok(length @ 0..15) => self.bytes.push(length << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.bytes.extend(varint(elements.len() as u64));
            }
        }
        self.bytes.extend(elements.concat());
        self
    }

    /// Ends the structure with the stop field, and returns its bytes.
    fn bytes(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn binary(text: &str) -> Vec<u8> {
    let mut bytes = varint(text.len() as u64);
    bytes.extend(text.as_bytes());
    bytes
}

fn zigzag(value: i64) -> Vec<u8> {
    varint((value << 1 ^ value >> 63).cast_unsigned())
}

/// Encodes a number in groups of seven bits, the lowest first.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
