"""Profiles in the manner of RLVER, written for the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

STORY = (
    "## 背景故事\n\n**事件起因**\n\n陈小雨和姐姐一起继承了外婆的旧钢琴。三周前姐姐没有打招呼就把钢琴卖掉了，陈小雨周日回家时才发现客厅里空了一块。"
    "她给姐姐打了三次电话，姐姐只说缺钱。母亲劝她算了，她却整晚睡不着，反复翻看小时候弹琴的照片。\n\n"
    "**事件当前状态**\n\n姐妹俩已经十天没有说话，买家下周一就要把钢琴运走。"
)
RULES = (
    "\n\n## 角色不同emotion下的反应\n\n- **emotion高时**：语气平和，愿意多讲小时候练琴的事。\n\n- **emotion低时**：语气激动，一句话就想结束谈话。\n\n"
    "- **emotion一般时**：有些急躁，说话断断续续。\n\n## 角色面对NPC不同回复的反应\n\n- **NPC贴合隐藏主题的回复**：认真听她说完，emotion会上升。\n\n"
    "- **NPC偏离隐藏主题的回复**：急着讲道理，emotion会下降。"
)
TASK = "你希望对方用心倾听你的情绪宣泄"


def profile(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": "profile-1",
        "player": "* 姓名：陈小雨\n* 年龄：27岁\n* 性别：女性\n\n* 职业：小学教师\n\n* 个人爱好：\n1. 弹钢琴\n2. 养花\n3. 写信，常常写到很晚也不觉得累，朋友们都说她有耐心",
        "scene": f"{STORY}{RULES}\n####隐藏主题:\n***{TASK}",
        "main_cha": "被动型",
        "cha_group": ["内向", "焦虑", "宽容"],
        "task": TASK,
    }
    return values | changes


def write_profiles(path: Path, *rows: Any) -> Path:
    text = "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
